//! Processing of the server's messages.

use super::monitor::MonitorMethod;
use super::{Event, Lock, Pending, Phase, Session, TransactionId};
use crate::replica::{UpdateForm, UpdateReader};
use crate::rpc::error_words;
use crate::value::parse_uuid;
use crate::{Changes, DatabaseSchema, Error, Message};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

impl Session {
    /// Processes all complete messages.
    pub(super) fn process(&mut self) -> Result<(), Error> {
        while let Some(bytes) = self.framer.next_message()? {
            match Message::parse(bytes)? {
                Message::Request { method, params, id } => self.answer(&method, params, id),
                Message::Notification { method, params } => self.notified(&method, &params)?,
                Message::Response { result, id } => self.answered(result, &id)?,
            }
        }
        Ok(())
    }

    fn answer(&mut self, method: &str, params: Value, id: Value) {
        let result = match method {
            "echo" => Ok(params),
            _ => Err(json!("unknown method")),
        };
        self.send(&Message::Response { result, id });
    }

    fn notified(&mut self, method: &str, params: &Value) -> Result<(), Error> {
        let params = params.as_array().map(Vec::as_slice).unwrap_or_default();
        // Messages for other monitors or locks, and unknown ones, are ignored (as in ovs: lib/ovsdb-cs.c).
        let is_ours = params.first().and_then(Value::as_str);
        match (method, params) {
            ("locked" | "stolen", _)
                if is_ours.is_some() && is_ours == self.config.lock.as_deref() =>
            {
                self.lock_moved(method == "locked");
                Ok(())
            }
            ("update" | "update2" | "update3" | "monitor_canceled", _)
                if is_ours != Some(&self.config.database) =>
            {
                Ok(())
            }
            ("update", [_, updates]) => self.updated(updates, UpdateForm::WholeRows),
            ("update2", [_, updates]) => self.updated(updates, UpdateForm::Differences),
            ("update3", [_, last_txn, updates]) => {
                let last_txn = parse_txn_id(last_txn)?;
                self.updated(updates, UpdateForm::Differences)?;
                self.last_txn = last_txn;
                Ok(())
            }
            ("update" | "update2" | "update3", params) => {
                let expected = "a monitor, then table updates";
                Err(Error::shape(format!("params of {method}"), expected, &json!(params)))
            }
            ("monitor_canceled", _) => Err(Error::MonitorCanceled),
            _ => Ok(()),
        }
    }

    fn answered(&mut self, result: Result<Value, Value>, id: &Value) -> Result<(), Error> {
        let Some(id) = id.as_u64() else { return Ok(()) };
        match self.pending.remove(&id) {
            None => Ok(()),
            Some(Pending::Schema) => self.schema_answered(result),
            Some(Pending::Lock) => self.lock_answered(result),
            Some(Pending::Monitor(method)) => self.monitor_answered(method, result),
            Some(Pending::Transaction(expected)) => {
                let (id, result) = (TransactionId(id), expected.read(result));
                self.events.push_back(Event::TransactionDone { id, result });
                Ok(())
            }
        }
    }

    fn schema_answered(&mut self, result: Result<Value, Value>) -> Result<(), Error> {
        let schema = DatabaseSchema::parse(&result.map_err(|e| refused("get_schema", &e))?)?;
        if self.schema.as_deref() != Some(&schema) {
            // Differences cannot be applied to rows of another schema.
            self.last_txn = Uuid::nil();
            self.monitored = self.config.monitor.known_to(&schema);
            self.schema = Some(Arc::new(schema));
        }
        self.phase = Phase::AwaitContents;
        self.request_monitor(MonitorMethod::CondSince);
        Ok(())
    }

    fn request_monitor(&mut self, method: MonitorMethod) {
        let tables = self.monitored.iter().map(|(table, columns)| {
            let columns: Vec<&str> = columns.iter().map(|column| &**column).collect();
            (table.to_string(), json!([{ "columns": columns }]))
        });
        let tables = Value::Object(tables.collect::<Map<_, _>>());
        let database = &self.config.database;
        // The database's name also names the monitor, since a session has only one.
        let mut params = vec![json!(database), json!(database), tables];
        if method == MonitorMethod::CondSince {
            params.push(json!(self.last_txn.to_string()));
        }
        self.request(method.name(), Value::Array(params), Pending::Monitor(method));
    }

    fn monitor_answered(
        &mut self,
        method: MonitorMethod,
        result: Result<Value, Value>,
    ) -> Result<(), Error> {
        let result = match (result, method.older()) {
            (Ok(result), _) => result,
            // Any error makes it try the older method; a permanent one recurs with the oldest method.
            (Err(_), Some(older)) => {
                self.request_monitor(older);
                return Ok(());
            }
            (Err(error), None) => return Err(refused(method.name(), &error)),
        };
        match method {
            MonitorMethod::CondSince => match result.as_array().map(Vec::as_slice) {
                Some([Value::Bool(found), last_txn, updates]) => {
                    let last_txn = parse_txn_id(last_txn)?;
                    self.contents(updates, UpdateForm::Differences, *found)?;
                    self.last_txn = last_txn;
                    Ok(())
                }
                _ => Err(Error::shape(method.name(), "[found, last-txn-id, updates]", &result)),
            },
            MonitorMethod::Cond => self.contents(&result, UpdateForm::Differences, false),
            MonitorMethod::Plain => self.contents(&result, UpdateForm::WholeRows, false),
        }
    }

    /// Processes the reply to a monitor request: the whole contents, or with `resumed` only the changes.
    fn contents(&mut self, updates: &Value, form: UpdateForm, resumed: bool) -> Result<(), Error> {
        let Some(schema) = self.schema.clone() else { return Ok(()) };
        let reader = UpdateReader { schema: &schema, monitored: &self.monitored, form };
        let changes = if resumed {
            self.replica.apply(updates, &reader)?
        } else {
            self.last_txn = Uuid::nil();
            self.replica.replace(updates, &reader)?
        };
        self.phase = Phase::Monitoring;
        self.events.push_back(Event::Connected { resumed });
        self.report(changes);
        Ok(())
    }

    fn updated(&mut self, updates: &Value, form: UpdateForm) -> Result<(), Error> {
        let (Phase::Monitoring, Some(schema)) = (self.phase, self.schema.clone()) else {
            return Ok(());
        };
        let reader = UpdateReader { schema: &schema, monitored: &self.monitored, form };
        let changes = self.replica.apply(updates, &reader)?;
        self.report(changes);
        Ok(())
    }

    fn report(&mut self, changes: Changes) {
        if !changes.is_empty() {
            self.events.push_back(Event::Updated(changes));
        }
    }

    fn lock_answered(&mut self, result: Result<Value, Value>) -> Result<(), Error> {
        let result = result.map_err(|error| refused("lock", &error))?;
        match result.get("locked").and_then(Value::as_bool) {
            Some(true) => self.lock_moved(true),
            Some(false) => {
                self.lock = Lock::Waiting;
                self.events.push_back(Event::LockBusy);
            }
            None => return Err(Error::shape("lock", "an object with \"locked\"", &result)),
        }
        Ok(())
    }

    fn lock_moved(&mut self, to_us: bool) {
        let (lock, event) = match to_us {
            true => (Lock::Ours, Event::LockAcquired),
            false => (Lock::Waiting, Event::LockStolen),
        };
        if std::mem::replace(&mut self.lock, lock) != lock {
            self.events.push_back(event);
        }
    }
}

fn refused(method: &'static str, error: &Value) -> Error {
    let (error, details) = error_words(error);
    let error = if details.is_empty() { error } else { format!("{error}: {details}") };
    Error::Refused { method, error }
}

fn parse_txn_id(json: &Value) -> Result<Uuid, Error> {
    let uuid = json.as_str().and_then(parse_uuid);
    uuid.ok_or_else(|| Error::shape("last-txn-id", "a UUID", json))
}
