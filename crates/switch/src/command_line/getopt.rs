//! Parsing of options like getopt_long(3) of the C library, with its error messages.
//!
//! Options and arguments may be mixed; long options may be abbreviated if unambiguous; `--` ends the options.

/// Whether an option takes an argument, and the argument's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// No argument.
    Nothing,
    /// An optional argument: `--name=ARG`, `-nARG`.
    Maybe(&'static str),
    /// A required argument: `--name=ARG`, `--name ARG`, `-nARG`, `-n ARG`.
    Argument(&'static str),
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct Opt<I> {
    /// Its identifier in the program.
    pub id: I,
    /// Its long name.
    pub long: &'static str,
    /// Its letter, if it has one.
    pub short: Option<char>,
    /// Its argument.
    pub takes: Takes,
    /// Its description for the help.
    pub help: &'static str,
}

/// An element of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<I> {
    /// An option, with its argument.
    Option(I, Option<String>),
    /// A word that is not an option.
    Word(String),
}

/// Parses a command line from left to right. Error messages begin with `program`.
#[derive(Debug)]
pub struct Getopt<'a, I> {
    program: &'a str,
    options: &'a [Opt<I>],
    args: std::vec::IntoIter<String>,
    /// Letters of one word that are still to be parsed, as in `-vh`.
    letters: String,
    only_words: bool,
}

impl<'a, I: Copy> Getopt<'a, I> {
    /// Starts with the words after the program's name.
    pub fn new(program: &'a str, options: &'a [Opt<I>], args: Vec<String>) -> Self {
        let args = args.into_iter();
        Getopt { program, options, args, letters: String::new(), only_words: false }
    }

    fn long(&mut self, text: &str) -> Result<Found<I>, String> {
        let (name, argument) = match text.split_once('=') {
            Some((name, argument)) => (name, Some(argument.to_owned())),
            None => (text, None),
        };
        let option = self.find_long(name)?;
        let program = self.program;
        let long = option.long;
        match (option.takes, argument) {
            (Takes::Nothing, Some(_)) => {
                Err(format!("{program}: option '--{long}' doesn't allow an argument"))
            }
            (Takes::Argument(_), None) => match self.args.next() {
                Some(argument) => Ok(Found::Option(option.id, Some(argument))),
                None => Err(format!("{program}: option '--{long}' requires an argument")),
            },
            (_, argument) => Ok(Found::Option(option.id, argument)),
        }
    }

    fn find_long(&self, name: &str) -> Result<&'a Opt<I>, String> {
        if let Some(option) = self.options.iter().find(|option| option.long == name) {
            return Ok(option);
        }
        let begin: Vec<&Opt<I>> =
            self.options.iter().filter(|option| option.long.starts_with(name)).collect();
        let program = self.program;
        match begin.as_slice() {
            [] => Err(format!("{program}: unrecognized option '--{name}'")),
            [option] => Ok(option),
            several => {
                let mut text = format!("{program}: option '--{name}' is ambiguous; possibilities:");
                for option in several {
                    text.push_str(&format!(" '--{}'", option.long));
                }
                Err(text)
            }
        }
    }

    /// Parses the first letter of `text`, which followed a dash.
    fn short(&mut self, text: &str) -> Result<Found<I>, String> {
        let mut letters = text.chars();
        let letter = letters.next().unwrap_or('-');
        let rest = letters.as_str();
        let program = self.program;
        let Some(option) = self.options.iter().find(|option| option.short == Some(letter)) else {
            return Err(format!("{program}: invalid option -- '{letter}'"));
        };
        let argument =
            match option.takes {
                Takes::Nothing => {
                    self.letters = rest.to_owned();
                    None
                }
                Takes::Maybe(_) | Takes::Argument(_) if !rest.is_empty() => Some(rest.to_owned()),
                Takes::Maybe(_) => None,
                Takes::Argument(_) => Some(self.args.next().ok_or_else(|| {
                    format!("{program}: option requires an argument -- '{letter}'")
                })?),
            };
        Ok(Found::Option(option.id, argument))
    }
}

impl<I: Copy> Iterator for Getopt<'_, I> {
    type Item = Result<Found<I>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.letters.is_empty() {
            let letters = std::mem::take(&mut self.letters);
            return Some(self.short(&letters));
        }
        let word = self.args.next()?;
        if self.only_words {
            return Some(Ok(Found::Word(word)));
        }
        if word == "--" {
            self.only_words = true;
            return self.next();
        }
        if let Some(long) = word.strip_prefix("--") {
            return Some(self.long(long));
        }
        match word.strip_prefix('-') {
            Some(letters) if !letters.is_empty() => Some(self.short(letters)),
            // A single dash is a word.
            _ => Some(Ok(Found::Word(word))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &[Opt<u8>] = &[
        Opt { id: 1, long: "pidfile", short: None, takes: Takes::Maybe("FILE"), help: "" },
        Opt { id: 2, long: "private-key", short: Some('p'), takes: Takes::Argument("F"), help: "" },
        Opt { id: 3, long: "verbose", short: Some('v'), takes: Takes::Maybe("SPEC"), help: "" },
        Opt { id: 4, long: "help", short: Some('h'), takes: Takes::Nothing, help: "" },
        Opt { id: 5, long: "disable-system", short: None, takes: Takes::Nothing, help: "" },
        Opt { id: 6, long: "disable-system-route", short: None, takes: Takes::Nothing, help: "" },
    ];

    fn check(line: &str, expect: &str) {
        let args = line.split_whitespace().map(String::from).collect();
        let words: Vec<String> = Getopt::new("x", OPTIONS, args)
            .map(|found| match found {
                Ok(Found::Option(id, None)) => format!("{id}"),
                Ok(Found::Option(id, Some(argument))) => format!("{id}={argument}"),
                Ok(Found::Word(word)) => word,
                Err(error) => format!("[{error}]"),
            })
            .collect();
        assert_eq!(words.join(" "), expect, "{line}");
    }

    /// The expected words are glibc 2.36's.
    #[test]
    fn command_lines_are_read_as_the_c_library_reads_them() {
        check("--pidfile a --pidfile=b --pidfile= -h", "1 a 1=b 1= 4");
        check("--private-key a --private-key=b -pc -p d -p=e", "2=a 2=b 2=c 2=d 2==e");
        check("-v -vx:y -hvh -hh", "3 3=x:y 4 3=h 4 4");
        check("--verb --he --pi=f --pr -v", "3 4 1=f 2=-v");
        check("--disable-system --disable-system-r", "5 6");
        check("a - -- -v --help", "a - -v --help");
        check("--p", "[x: option '--p' is ambiguous; possibilities: '--pidfile' '--private-key']");
        check("--nosuch=1 b", "[x: unrecognized option '--nosuch'] b");
        check("--help=1", "[x: option '--help' doesn't allow an argument]");
        check("--priv", "[x: option '--private-key' requires an argument]");
        check("-hp", "4 [x: option requires an argument -- 'p']");
        check("-xh", "[x: invalid option -- 'x']");
        check("-é", "[x: invalid option -- 'é']");
    }
}
