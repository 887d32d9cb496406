//! Latencies as JSON.

use super::spread::Summary;
use super::{Report, Spread, Stage, Stages};
use flow::UpcallClass;
use serde_json::{Map, Value, json};

impl Report {
    /// Returns one JSON object. Times are in microseconds; `log2` contains the lower end of each power of two
    /// and its count.
    pub fn json(&self) -> Value {
        let handlers = (0..self.handlers.len())
            .map(|handler| json!({"handler": handler, "classes": self.classes(Some(handler))}));
        let sizes = self.batch_sizes();
        json!({
            "unit": "microseconds",
            "classes": self.classes(None),
            "handlers": handlers.collect::<Value>(),
            "batch_size": spread(&sizes, &sizes.summary_plain()),
        })
    }

    fn classes(&self, handler: Option<usize>) -> Value {
        let mut classes = Map::new();
        classes.insert("all".to_owned(), stages(&self.stages(None, handler)));
        for class in UpcallClass::ALL {
            classes.insert(class.name().to_owned(), stages(&self.stages(Some(class), handler)));
        }
        Value::Object(classes)
    }
}

fn stages(stages: &Stages) -> Value {
    let of = |stage: Stage| {
        let it = stages.of(stage);
        (stage.name().to_owned(), spread(it, &it.summary_us()))
    };
    Value::Object(Stage::ALL.into_iter().map(of).collect())
}

fn spread(it: &Spread, summary: &Summary) -> Value {
    let [p50, p90, p99, p999] = summary.percentiles;
    json!({
        "count": summary.count,
        "min": summary.min,
        "max": summary.max,
        "average": summary.average,
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "p99.9": p999,
        "log2": it.octaves().collect::<Vec<_>>(),
    })
}
