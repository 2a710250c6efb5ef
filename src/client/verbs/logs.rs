//! `logs`: what workers have written, from the journal or from their output files. A long file loses its oldest part
//! while the worker lives: the daemon punches it out, the file keeps its length, and the hole is
//! skipped here, never printed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use super::wait::ended;
use super::{journal, look};
use crate::client::args::LogsArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, Tally};
use crate::client::output::text::escape;
use crate::client::output::write_out;
use crate::client::view::Worker;

/// Between two looks at a file that is followed.
const LOOK: Duration = Duration::from_millis(150);
/// Read at once.
const BLOCK: usize = 64 * 1024;

/// An output file and how far it has been printed.
#[derive(Debug)]
pub struct Reader {
    file: File,
    at: u64,
}

impl Reader {
    /// Opens the file; what lies before `dropped` is not looked at.
    pub fn open(path: &Path, dropped: u64) -> io::Result<Self> {
        // A worker's owner could put a fifo there: opening it must not hang.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self { file, at: dropped })
    }

    /// Goes to where the last `lines` lines begin.
    pub fn seek_last_lines(&mut self, lines: usize) -> io::Result<()> {
        let end = self.file.metadata()?.size();
        let start = self.next_data(self.at)?.unwrap_or(end);
        let mut wanted = lines;
        let mut block = vec![0; BLOCK];
        let mut from = end;
        while from > start {
            let size = usize::try_from(from - start).unwrap_or(BLOCK).min(BLOCK);
            let begin = from - size as u64;
            self.file.read_exact_at(&mut block[..size], begin)?;
            for i in (0..size).rev() {
                // The last line's own end begins nothing.
                let last = begin + i as u64 + 1 == end;
                if block[i] == b'\n' && !last {
                    if wanted <= 1 {
                        self.at = if lines == 0 {
                            end
                        } else {
                            begin + i as u64 + 1
                        };
                        return Ok(());
                    }
                    wanted -= 1;
                }
            }
            from = begin;
        }
        self.at = if lines == 0 { end } else { start };
        Ok(())
    }

    /// The next bytes; empty if there are none yet.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let end = self.file.metadata()?.size();
        if end < self.at {
            // Somebody cut the file; what comes now is new.
            self.at = 0;
        }
        let Some(data) = self.next_data(self.at)? else {
            return Ok(Vec::new());
        };
        self.at = data;
        let until = match seek(&self.file, SeekFrom::Hole(data)) {
            Ok(hole) => hole.min(end),
            Err(_) => end,
        };
        let size = usize::try_from(until.saturating_sub(data))
            .unwrap_or(BLOCK)
            .min(BLOCK);
        let mut block = vec![0; size];
        let got = self.file.read_at(&mut block, data)?;
        block.truncate(got);
        self.at += got as u64;
        Ok(block)
    }

    /// Where the next data at or after `from` begins; `None` if none follows.
    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        match seek(&self.file, SeekFrom::Data(from)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            // A file system that knows no holes has none.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                Ok((from < self.file.metadata()?.size()).then_some(from))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The last lines of an output file.
pub fn tail_of(path: &Path, dropped: u64, lines: usize) -> io::Result<Vec<u8>> {
    // Enough for any screen; a line longer than this is cut at its front.
    const MOST: usize = 256 * 1024;
    let mut reader = Reader::open(path, dropped)?;
    reader.seek_last_lines(lines)?;
    let mut all = Vec::new();
    loop {
        let block = reader.read()?;
        if block.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&block);
        let over = all.len().saturating_sub(MOST);
        all.drain(..over);
    }
}

/// One worker's output being printed.
struct Source {
    title: String,
    from: From,
    /// Ends when the worker has; `None` where nothing is followed.
    end: Option<JoinHandle<Result<(), Failure>>>,
}

enum From {
    File(PathBuf, Reader),
    Journal(Box<Worker>, journal::Reader),
}

/// Runs the verb.
pub async fn run(daemon: &Rc<Daemon>, args: &LogsArgs) -> Result<Code, Failure> {
    let mut tally = Tally::default();
    let mut sources = Vec::new();
    for worker in &args.workers {
        match open(daemon, worker, args).await {
            Ok(source) => sources.push(source),
            Err(failure) => tally.add(Err(failure)),
        }
    }
    let mut printer = Printer {
        many: args.workers.len() > 1,
        last: None,
    };
    while !sources.is_empty() {
        let mut quiet = true;
        let mut left = Vec::new();
        for mut source in sources {
            // Asked before the read: what was written before the end is then read after it.
            let over = source.end.as_ref().is_none_or(JoinHandle::is_finished);
            let printed = print_new(&mut source, over, &mut printer)?;
            quiet &= printed != Printed::Something;
            if printed != Printed::Everything {
                left.push(source);
                continue;
            }
            say_if_nothing(&source.from);
            if let Some(end) = source.end {
                tally.add(end.await.unwrap_or(Ok(())).map(|()| Code::DONE));
            }
        }
        sources = left;
        if quiet && !sources.is_empty() {
            tokio::time::sleep(LOOK).await;
        } else {
            // The wait for the end runs on this thread.
            tokio::task::yield_now().await;
        }
    }
    Ok(tally.code())
}

async fn open(daemon: &Rc<Daemon>, worker: &str, args: &LogsArgs) -> Result<Source, Failure> {
    let (_, view) = look(daemon, worker, Asking::Action).await?;
    let title = escape(&view.title());
    if daemon.is_remote() {
        return Err(Failure::failed(format!(
            "the output of {title} is on the other machine; run musterctl logs there"
        )));
    }
    let end = |id: &str| {
        args.follow.then(|| {
            let (daemon, id) = (Rc::clone(daemon), id.to_owned());
            tokio::task::spawn_local(async move { ended(&daemon, &id).await.map(|_| ()) })
        })
    };
    if view.journal {
        let reader = journal::Reader::start(&view, args.lines, args.follow).map_err(|e| {
            Failure::failed(format!(
                "the output of {title} is in the journal, and journalctl cannot be run: {e}"
            ))
        })?;
        return Ok(Source {
            title,
            end: end(&view.id),
            from: From::Journal(Box::new(view), reader),
        });
    }
    let Some(path) = view.output.clone().map(PathBuf::from) else {
        let where_it_goes = match view.adopted {
            true => "adopted, it writes where it wrote before",
            false => "it went where the worker was started (--pipe)",
        };
        return Err(Failure::failed(format!(
            "{title} has no output of its own: {where_it_goes}"
        )));
    };
    let cannot = |e: io::Error| {
        Failure::failed(format!(
            "cannot read the output of {title}, {}: {e}",
            path.display()
        ))
    };
    let mut reader = Reader::open(&path, view.output_dropped).map_err(cannot)?;
    if let Some(lines) = args.lines {
        reader.seek_last_lines(lines).map_err(cannot)?;
    }
    Ok(Source {
        title,
        end: end(&view.id),
        from: From::File(path, reader),
    })
}

/// Somebody who may not read the journal is told what to do.
fn say_if_nothing(from: &From) {
    if let From::Journal(worker, reader) = from
        && !reader.anything
        && let Some(hint) = journal::hint(worker)
    {
        say!("musterctl: {hint}");
    }
}

/// What a look at a source came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Printed {
    Something,
    Nothing,
    Everything,
}

/// Prints one block; `over` says that the worker has ended, or that nothing is followed.
fn print_new(source: &mut Source, over: bool, printer: &mut Printer) -> Result<Printed, Failure> {
    let cannot = |what: &str, e: io::Error| Failure::failed(format!("cannot {what}: {e}"));
    let block = match &mut source.from {
        From::File(path, reader) => reader
            .read()
            .map_err(|e| cannot(&format!("read {}", path.display()), e))?,
        From::Journal(_, reader) => match reader.look(over) {
            journal::Look::Block(block) => block,
            journal::Look::Quiet => return Ok(Printed::Nothing),
            journal::Look::End => return Ok(Printed::Everything),
        },
    };
    if block.is_empty() {
        return Ok(if over {
            Printed::Everything
        } else {
            Printed::Nothing
        });
    }
    printer
        .print(&source.title, &block)
        .map_err(|e| cannot("write to stdout", e))?;
    Ok(Printed::Something)
}

/// Standard output, with a heading wherever another worker speaks.
struct Printer {
    many: bool,
    last: Option<String>,
}

impl Printer {
    fn print(&mut self, title: &str, block: &[u8]) -> io::Result<()> {
        if self.many && self.last.as_deref() != Some(title) {
            let gap = if self.last.is_some() { "\n" } else { "" };
            write_out(format!("{gap}==> {title} <==\n").as_bytes())?;
            self.last = Some(title.to_owned());
        }
        write_out(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FallocateFlags;
    use std::io::Write;

    fn all(reader: &mut Reader) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let block = reader.read().unwrap();
            if block.is_empty() {
                return out;
            }
            out.extend_from_slice(&block);
        }
    }

    #[test]
    fn a_follower_skips_what_was_punched_out_and_goes_on() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let page = 4096;
        file.write_all(&vec![b'a'; 64 * page]).unwrap();
        let mut reader = Reader::open(file.path(), 0).unwrap();
        assert_eq!(reader.read().unwrap().len(), BLOCK);
        // The daemon drops 48 pages, the reader stands at 16.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(file.as_file(), flags, 0, 48 * page as u64).is_err() {
            eprintln!("not run, because this file system cannot punch holes");
            return;
        }
        assert_eq!(all(&mut reader), vec![b'a'; 16 * page]);
        file.write_all(b"tail").unwrap();
        assert_eq!(all(&mut reader), b"tail");
        assert_eq!(all(&mut reader), b"");
    }

    #[test]
    fn a_hole_up_to_the_end_is_waited_out() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let mut reader = Reader::open(file.path(), 0).unwrap();
        assert_eq!(all(&mut reader), b"");
        use std::io::Seek;
        file.seek(io::SeekFrom::End(0)).unwrap();
        file.write_all(b"x").unwrap();
        let got = all(&mut reader);
        assert!(got.ends_with(b"x") && got.len() <= 1, "{}", got.len());
    }

    #[test]
    fn the_last_lines_are_found_without_a_final_newline_too() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        file.write_all(text.as_bytes()).unwrap();
        let tail = |lines| String::from_utf8(tail_of(file.path(), 0, lines).unwrap()).unwrap();
        assert_eq!(tail(2), "line 19998\nline 19999\n");
        assert_eq!(tail(0), "");
        assert_eq!(tail(15_000).lines().count(), 15_000);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"a\nb\nc").unwrap();
        let tail = |lines| String::from_utf8(tail_of(file.path(), 0, lines).unwrap()).unwrap();
        assert_eq!(tail(2), "b\nc");
        assert_eq!(tail(9), "a\nb\nc");
    }

    #[test]
    fn a_file_that_was_cut_is_read_from_its_beginning() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"long text").unwrap();
        let mut reader = Reader::open(file.path(), 0).unwrap();
        assert_eq!(all(&mut reader), b"long text");
        file.as_file().set_len(0).unwrap();
        use std::io::Seek;
        file.rewind().unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(all(&mut reader), b"new");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(Reader::open(Path::new("/dev/null"), 0).is_err());
        assert!(Reader::open(Path::new("/nosuch"), 0).is_err());
    }
}
