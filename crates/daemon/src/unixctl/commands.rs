//! The table of commands.

use super::{Call, Format, Reply};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Commands by name, for a program with the state `C`.
#[derive(Debug)]
pub struct Commands<C> {
    version: String,
    by_name: BTreeMap<&'static str, Command<C>>,
}

struct Command<C> {
    usage: &'static str,
    min_args: usize,
    max_args: usize,
    handler: Handler<C>,
    /// The answer as a document, if the command has one.
    document: Option<Documenter<C>>,
}

type Handler<C> = Box<dyn Fn(&mut C, &[String]) -> Reply>;
type Documenter<C> = Box<dyn Fn(&mut C, &[String]) -> Result<Value, String>>;

/// The commands about the commands themselves, which every program has.
const LIST: &str = "list-commands";
const VERSION: &str = "version";
const OPTIONS: &str = "set-options";

impl<C> Commands<C> {
    /// A table with `list-commands`, `set-options` and `version`; the last one answers `version`.
    pub fn new(version: &str) -> Self {
        let mut commands = Commands { version: version.to_owned(), by_name: BTreeMap::new() };
        for name in [LIST, VERSION] {
            // `run` answers these, because a handler has no access to the table.
            commands.add(name, "", 0, 0, |_, _| Reply::done());
        }
        commands.add(OPTIONS, "[--format text|json]", 1, 2, |_, args| match format(args) {
            Ok(format) => Reply::Format(format),
            Err(error) => Reply::Error(error),
        });
        commands
    }

    /// Adds a command with `min_args` to `max_args` arguments. `list-commands` prints `usage`. `handler`
    /// returns a [`Reply`], a text, or a `Result` of a text or an error's text. A later command replaces an
    /// earlier one with the same name.
    pub fn add<H, R>(
        &mut self,
        name: &'static str,
        usage: &'static str,
        min_args: usize,
        max_args: usize,
        handler: H,
    ) where
        H: Fn(&mut C, &[String]) -> R + 'static,
        R: Into<Reply>,
    {
        let handler: Handler<C> = Box::new(move |context, args| handler(context, args).into());
        let command = Command { usage, min_args, max_args, handler, document: None };
        self.by_name.insert(name, command);
    }

    /// Adds the answer of a command as a document, for clients that ask for [`Format::Json`].
    ///
    /// # Panics
    /// There is no such command.
    pub fn add_document<H>(&mut self, name: &'static str, document: H)
    where
        H: Fn(&mut C, &[String]) -> Result<Value, String> + 'static,
    {
        let command = self.by_name.get_mut(name);
        command.expect("a command's text is added first").document = Some(Box::new(document));
    }

    /// Runs a client's command and answers it.
    pub fn answer(&self, context: &mut C, call: Call) {
        let args: Option<Vec<String>> = call.args.iter().cloned().collect();
        let reply = match (self.check(&call.name, call.args.len()), args) {
            (Err(error), _) => Reply::Error(error),
            (Ok(_), None) => {
                Reply::Error(format!("\"{}\" command has non-string argument", call.name))
            }
            (Ok(command), Some(args)) => match (call.format, &command.document) {
                (Format::Json, Some(document)) => match document(context, &args) {
                    Ok(document) => Reply::Json(document),
                    Err(error) => Reply::Error(error),
                },
                (Format::Json, None) if call.name == LIST => Reply::Json(self.usages()),
                (Format::Json, None) if call.name == VERSION => {
                    Reply::Text(self.version.trim_end().to_owned())
                }
                _ => self.run(context, &call.name, &args),
            },
        };
        call.answer(reply);
    }

    /// Runs a command and returns its reply.
    pub fn run(&self, context: &mut C, name: &str, args: &[String]) -> Reply {
        match (self.check(name, args.len()), name) {
            (Err(error), _) => Reply::Error(error),
            (Ok(_), LIST) => Reply::Text(self.list()),
            (Ok(_), VERSION) => Reply::Text(self.version.clone()),
            (Ok(command), _) => (command.handler)(context, args),
        }
    }

    /// Returns the command, or an error if it is unknown or takes another number of arguments.
    fn check(&self, name: &str, count: usize) -> Result<&Command<C>, String> {
        let Some(command) = self.by_name.get(name) else {
            return Err(format!(
                "\"{name}\" is not a valid command \
                 (use \"list-commands\" to see a list of valid commands)"
            ));
        };
        let (min, max) = (command.min_args, command.max_args);
        if count < min {
            Err(format!("\"{name}\" command requires at least {min} arguments"))
        } else if count > max {
            Err(format!("\"{name}\" command takes at most {max} arguments"))
        } else {
            Ok(command)
        }
    }

    /// Returns the names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }

    fn usages(&self) -> Value {
        self.by_name.iter().map(|(name, command)| (*name, command.usage)).collect()
    }

    fn list(&self) -> String {
        let mut out = String::from("The available commands are:\n");
        for (name, command) in &self.by_name {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {name:<23} {}", command.usage);
        }
        out
    }
}

/// Parses the words of `set-options` (ovs: `lib/command-line.c`, `ovs_cmdl_parse_all`).
fn format(words: &[String]) -> Result<Format, String> {
    let mut format = Format::Text;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = match (word.strip_prefix("--format="), word.as_str()) {
            (Some(value), _) => Some(value),
            (None, "--format" | "-f") => words.next().map(String::as_str),
            (None, _) if !word.starts_with('-') => continue,
            (None, _) => return Err(format!("unrecognized option '{word}'")),
        };
        format = match value {
            Some("text") => Format::Text,
            Some("json") => Format::Json,
            Some(other) => return Err(format!("option format has invalid value {other}")),
            None => return Err(format!("option '{word}' requires an argument")),
        };
    }
    Ok(format)
}

/// Adds `exit [--cleanup]`. The second argument of `exit` is whether `--cleanup` was given; it ends the main
/// loop, and returns the reply.
pub fn add_exit<C, H>(commands: &mut Commands<C>, exit: H)
where
    H: Fn(&mut C, bool) -> Reply + 'static,
{
    commands.add("exit", "[--cleanup]", 0, 1, move |context, args| {
        exit(context, args.first().is_some_and(|arg| arg == "--cleanup"))
    });
}

impl<C> std::fmt::Debug for Command<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}..={}", self.usage, self.min_args, self.max_args)
    }
}
