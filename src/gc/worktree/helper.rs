//! The body of `musterd probe`: reads requests from standard input and answers them, one after
//! the other, until the input ends. It is started with the owner's ids and an empty environment,
//! and is the only one of musterd's processes that looks into a user's directories.

use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::check::Check;
use super::discover;
use super::git::Git;
use super::place::identify;
use super::wire::{Answer, Ask, Request};

/// A request may not ask for more; the daemon has its own limit.
const LIMIT_MAX: Duration = Duration::from_secs(3600);

/// `musterd probe [GIT]`. Ends with 0 when the input ends, with 1 on a request it does not
/// understand or an answer it cannot write.
pub fn helper_main() -> ExitCode {
    let given = std::env::args_os()
        .nth(2)
        .filter(|git: &OsString| !git.is_empty());
    match serve(given.map(PathBuf::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the daemon's own, or /dev/null.
            let _ = writeln!(io::stderr(), "musterd probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(git: Option<PathBuf>) -> io::Result<()> {
    let git = Git::find(git);
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = io::stdout().lock();
    while let Some(request) = Request::read(&mut input)? {
        output.write_all(&answer(&git, &request).encode()?)?;
        output.flush()?;
    }
    Ok(())
}

fn answer(git: &Result<Git, String>, request: &Request) -> Answer {
    match request.ask {
        Ask::Identify => match identify(&request.path) {
            Ok(place) => Answer::Found(place),
            Err(why) => Answer::unknown(why),
        },
        Ask::Discover => discover::answer(&request.path),
        Ask::Probe => match git {
            Ok(git) => {
                let check = Check {
                    git,
                    ignored: request.ignored,
                    deadline: Instant::now() + request.limit.min(LIMIT_MAX),
                };
                check.answer(request)
            }
            Err(why) => Answer::unknown(why.clone()),
        },
    }
}
