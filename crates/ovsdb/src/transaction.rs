//! Building a transaction, and parsing its reply (RFC 7047 sections 4.1.3 and 5.2).

use crate::rpc::error_words;
use crate::{Atom, DatabaseSchema, Datum};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Operations that are applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transaction {
    lock: Option<String>,
    operations: Vec<Operation>,
}

/// Columns and their new values.
pub type Values = BTreeMap<String, Datum>;

#[derive(Debug, Clone, PartialEq)]
enum Operation {
    Insert { table: String, name: Option<String>, row: Values },
    Update { table: String, of: Vec<Condition>, row: Values },
    Mutate { table: String, of: Vec<Condition>, mutations: Vec<(String, Mutator, Datum)> },
    Delete { table: String, of: Vec<Condition> },
    Select { table: String, of: Vec<Condition>, columns: Vec<String> },
    Wait { table: String, of: Vec<Condition>, until_equal: bool, row: Values, timeout_ms: u64 },
    Comment(String),
}

/// A condition that selects rows: `column function value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    column: String,
    function: Function,
    value: Datum,
}

/// The comparison of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// The column has all elements of the value.
    Includes,
    /// The column has no element of the value.
    Excludes,
}

/// The operation by which a mutation changes a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutator {
    /// `+=` on numbers.
    Add,
    /// `-=` on numbers.
    Subtract,
    /// `*=` on numbers.
    Multiply,
    /// `/=` on numbers.
    Divide,
    /// `%=` on integers.
    Remainder,
    /// Puts elements into a set, or pairs with new keys into a map.
    Insert,
    /// Removes elements from a set, or pairs from a map; a set of keys removes those keys.
    Delete,
}

/// The outcome of a transaction.
pub type TransactionResult = Result<TransactionReply, TransactionError>;

/// The results of a committed transaction's operations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TransactionReply {
    /// One for each operation, in their order.
    pub results: Vec<OperationResult>,
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationResult {
    /// A row was inserted, with this UUID.
    Inserted(Uuid),
    /// The number of rows that were updated, mutated or deleted.
    Count(u64),
    /// The rows of a select, as JSON.
    Rows(Vec<Value>),
    /// The operation has no result.
    Done,
}

/// Why a transaction failed, or why its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// An operation failed, or committing did.
    #[error("{}: {error}: {details}", operation_name(*operation))]
    Failed {
        /// Index of the operation; `None` if the commit failed.
        operation: Option<usize>,
        /// The server's error, such as "constraint violation" (RFC 7047 section 3.1).
        error: String,
        /// Details; may be empty.
        details: String,
    },
    /// Another client holds the lock that the transaction asserts.
    #[error("the lock that the transaction asserts is not ours any more")]
    NotOwner,
    /// The server refused the whole request.
    #[error("the server refused the transaction: {error}: {details}")]
    Refused {
        /// The server's error.
        error: String,
        /// Details; may be empty.
        details: String,
    },
    /// The connection ended before the reply: the transaction may have been committed or not.
    #[error("the connection was lost before the reply came; the outcome is unknown")]
    Disconnected,
    /// The reply is malformed.
    #[error("the reply to the transaction is malformed: {0}")]
    Malformed(String),
}

fn operation_name(operation: Option<usize>) -> String {
    operation.map_or("commit failed".into(), |index| format!("operation {index} failed"))
}

/// What is needed to parse a transaction's reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    asserts: bool,
    operations: usize,
}

impl Condition {
    /// The row with this UUID.
    pub fn uuid(uuid: Uuid) -> Self {
        Condition::new("_uuid", Function::Equal, uuid)
    }

    /// `column function value`.
    pub fn new(column: &str, function: Function, value: impl Into<Datum>) -> Self {
        Condition { column: column.to_owned(), function, value: value.into() }
    }

    fn to_json(&self) -> Value {
        json!([self.column, self.function.name(), self.value.to_json()])
    }
}

impl Transaction {
    /// A transaction without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Makes the transaction fail unless this client holds the lock `name`.
    pub fn assert_lock(&mut self, name: &str) -> &mut Self {
        self.lock = Some(name.to_owned());
        self
    }

    /// Inserts a row. Other operations refer to it by the returned atom. `name` must be an `<id>`: letters,
    /// digits and underscores, not starting with a digit.
    pub fn insert(&mut self, table: &str, name: &str, row: Values) -> Atom {
        let insert = Operation::Insert { table: table.into(), name: Some(name.into()), row };
        self.operations.push(insert);
        Atom::NamedUuid(name.to_owned())
    }

    /// Sets columns of one row.
    pub fn update(&mut self, table: &str, uuid: Uuid, row: Values) -> &mut Self {
        self.update_where(table, vec![Condition::uuid(uuid)], row)
    }

    /// Sets columns of all rows that meet every condition.
    pub fn update_where(&mut self, table: &str, of: Vec<Condition>, row: Values) -> &mut Self {
        self.push(Operation::Update { table: table.into(), of, row })
    }

    /// Changes a column of one row relative to its value.
    pub fn mutate(
        &mut self,
        table: &str,
        uuid: Uuid,
        column: &str,
        mutator: Mutator,
        value: impl Into<Datum>,
    ) -> &mut Self {
        let mutations = vec![(column.to_owned(), mutator, value.into())];
        let of = vec![Condition::uuid(uuid)];
        self.push(Operation::Mutate { table: table.into(), of, mutations })
    }

    /// Deletes one row.
    pub fn delete(&mut self, table: &str, uuid: Uuid) -> &mut Self {
        self.delete_where(table, vec![Condition::uuid(uuid)])
    }

    /// Deletes all rows that meet every condition.
    pub fn delete_where(&mut self, table: &str, of: Vec<Condition>) -> &mut Self {
        self.push(Operation::Delete { table: table.into(), of })
    }

    /// Selects columns of all rows that meet every condition; no columns means all.
    pub fn select(&mut self, table: &str, of: Vec<Condition>, columns: &[&str]) -> &mut Self {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        self.push(Operation::Select { table: table.into(), of, columns })
    }

    /// Waits up to `timeout_ms` until the columns of a row have these values, or with `until_equal` false
    /// until they differ. Zero fails at once, which verifies that the row is unchanged.
    pub fn wait(
        &mut self,
        table: &str,
        uuid: Uuid,
        until_equal: bool,
        row: Values,
        timeout_ms: u64,
    ) -> &mut Self {
        let of = vec![Condition::uuid(uuid)];
        self.push(Operation::Wait { table: table.into(), of, until_equal, row, timeout_ms })
    }

    /// Adds a comment to the database's log.
    pub fn comment(&mut self, text: &str) -> &mut Self {
        self.push(Operation::Comment(text.to_owned()))
    }

    /// Removes columns that the server does not have, as with a newer or older schema.
    pub fn retain_known(&mut self, schema: &DatabaseSchema) {
        for operation in &mut self.operations {
            match operation {
                Operation::Insert { table, row, .. }
                | Operation::Update { table, row, .. }
                | Operation::Wait { table, row, .. } => {
                    row.retain(|column, _| schema.has_column(table, column));
                }
                Operation::Mutate { table, mutations, .. } => {
                    mutations.retain(|(column, ..)| schema.has_column(table, column));
                }
                Operation::Delete { .. } | Operation::Select { .. } | Operation::Comment(_) => {}
            }
        }
    }

    /// Returns the parameters of a `transact` request: the database, then the operations.
    pub fn to_params(&self, database: &str) -> Value {
        let assert = self.lock.iter().map(|lock| json!({"op": "assert", "lock": lock}));
        let operations = self.operations.iter().map(Operation::to_json);
        std::iter::once(json!(database)).chain(assert).chain(operations).collect()
    }

    pub(crate) fn expected(&self) -> Expected {
        Expected { asserts: self.lock.is_some(), operations: self.operations.len() }
    }

    pub(crate) fn asserts_lock(&self) -> bool {
        self.lock.is_some()
    }

    fn push(&mut self, operation: Operation) -> &mut Self {
        self.operations.push(operation);
        self
    }
}

impl Operation {
    fn to_json(&self) -> Value {
        match self {
            Operation::Insert { table, name: Some(name), row } => {
                json!({"op": "insert", "table": table, "uuid-name": name, "row": row_json(row)})
            }
            Operation::Insert { table, name: None, row } => {
                json!({"op": "insert", "table": table, "row": row_json(row)})
            }
            Operation::Update { table, of, row } => json!({
                "op": "update", "table": table, "where": where_json(of), "row": row_json(row),
            }),
            Operation::Mutate { table, of, mutations } => {
                let mutations: Vec<_> = mutations
                    .iter()
                    .map(|(column, mutator, value)| {
                        json!([column, mutator.name(), value.to_json()])
                    })
                    .collect();
                let of = where_json(of);
                json!({"op": "mutate", "table": table, "where": of, "mutations": mutations})
            }
            Operation::Delete { table, of } => {
                json!({"op": "delete", "table": table, "where": where_json(of)})
            }
            Operation::Select { table, of, columns } if columns.is_empty() => {
                json!({"op": "select", "table": table, "where": where_json(of)})
            }
            Operation::Select { table, of, columns } => {
                json!({"op": "select", "table": table, "where": where_json(of), "columns": columns})
            }
            Operation::Wait { table, of, until_equal, row, timeout_ms } => json!({
                "op": "wait", "table": table, "where": where_json(of), "timeout": timeout_ms,
                "until": if *until_equal { "==" } else { "!=" },
                "columns": row.keys().collect::<Vec<_>>(), "rows": [row_json(row)],
            }),
            Operation::Comment(text) => json!({"op": "comment", "comment": text}),
        }
    }
}

fn row_json(row: &Values) -> Value {
    let members = row.iter().map(|(column, datum)| (column.clone(), datum.to_json()));
    Value::Object(members.collect::<Map<_, _>>())
}

fn where_json(of: &[Condition]) -> Value {
    of.iter().map(Condition::to_json).collect()
}

impl Function {
    const fn name(self) -> &'static str {
        match self {
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::GreaterOrEqual => ">=",
            Function::Greater => ">",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        }
    }
}

impl Mutator {
    const fn name(self) -> &'static str {
        match self {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Remainder => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        }
    }
}

impl Expected {
    /// Parses the response to the transaction.
    ///
    /// The array has one result per operation, null from the first failed one on, and an additional element
    /// if only the commit failed (RFC 7047 section 4.1.3).
    pub(crate) fn read(self, response: Result<Value, Value>) -> TransactionResult {
        let results = response.map_err(|error| {
            let (error, details) = error_words(&error);
            TransactionError::Refused { error, details }
        })?;
        let Value::Array(results) = results else {
            return Err(TransactionError::Malformed(format!("not an array: {results}")));
        };
        let asserts = usize::from(self.asserts);
        if let Some(at) = results.iter().position(|result| result.get("error").is_some()) {
            let (error, details) = results.get(at).map(error_words).unwrap_or_default();
            if at < asserts && error == "not owner" {
                return Err(TransactionError::NotOwner);
            }
            let operation = at.checked_sub(asserts).filter(|index| *index < self.operations);
            return Err(TransactionError::Failed { operation, error, details });
        }
        if results.len() != self.operations + asserts {
            let (have, want) = (results.len(), self.operations + asserts);
            let words = format!("{have} results for {want} operations");
            return Err(TransactionError::Malformed(words));
        }
        let results =
            results.iter().skip(asserts).map(OperationResult::read).collect::<Result<_, _>>()?;
        Ok(TransactionReply { results })
    }
}

impl OperationResult {
    fn read(json: &Value) -> Result<Self, TransactionError> {
        let malformed = || TransactionError::Malformed(format!("not a result: {json}"));
        let members = json.as_object().ok_or_else(malformed)?;
        if let Some(uuid) = members.get("uuid") {
            let uuid = Atom::parse(uuid).ok().and_then(|atom| atom.as_uuid());
            return uuid.map(OperationResult::Inserted).ok_or_else(malformed);
        }
        if let Some(count) = members.get("count") {
            return count.as_u64().map(OperationResult::Count).ok_or_else(malformed);
        }
        match members.get("rows") {
            Some(Value::Array(rows)) => Ok(OperationResult::Rows(rows.clone())),
            Some(_) => Err(malformed()),
            None => Ok(OperationResult::Done),
        }
    }
}

#[cfg(test)]
mod tests;
