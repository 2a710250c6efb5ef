//! Where the run takes place: the daemon under test, the floors, a directory on the file system
//! of the state directory.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use musterd::dbus::client::Client;
use musterd::supervisor::handle::{CancelOptions, Stdio as WorkerStdio};
use musterd::worker::{Environment, Spec};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What the run is told.
pub struct Place {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// Starts the daemon again with nothing on its roll (`sh -c`).
    pub fresh: String,
    /// For files of the floors, on the same file system as the daemon's.
    pub dir: PathBuf,
    /// Where the floors make their leaves.
    pub cgroup: PathBuf,
    /// The bus that the daemon is on, if any.
    pub bus: Option<String>,
    /// systemd is PID 1 here.
    pub systemd: bool,
    pub rounds: usize,
    /// A tenth of the counts, to try the bench itself.
    pub quick: bool,
}

impl Place {
    /// A count, or a tenth of it.
    pub fn count(&self, n: usize) -> usize {
        if self.quick { n / 10 } else { n }
    }

    /// Another program of the bench.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let own = std::env::current_exe()?;
        Ok(own.parent().unwrap_or(Path::new(".")).join(name))
    }

    /// The daemon with an empty roll.
    pub async fn fresh(&self) -> Result<Daemon> {
        run("sh", &["-c", &self.fresh])?;
        self.daemon().await
    }

    /// The daemon as it is.
    pub async fn daemon(&self) -> Result<Daemon> {
        let end = Instant::now() + Duration::from_secs(30);
        let client = loop {
            match Client::peer(&self.socket).await {
                Ok(client) => break client,
                Err(error) if Instant::now() > end => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let status = client.status("").await?;
        let pid = status.pointer("/service/pid").and_then(|p| p.as_u64());
        Ok(Daemon {
            client,
            pid: pid.ok_or("the status tells no pid")?,
        })
    }

    /// A floor that answers with one number.
    pub fn floor(&self, args: &[&str]) -> Result<f64> {
        self.number("floor", args)
    }

    /// The same of another program.
    pub fn number(&self, program: &str, args: &[&str]) -> Result<f64> {
        let out = Command::new(self.program(program)?).args(args).output()?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned().into());
        }
        Ok(String::from_utf8(out.stdout)?.trim().parse()?)
    }

    /// A directory of leaves for one floor.
    pub fn leaves(&self) -> String {
        self.cgroup.join("floor").to_string_lossy().into_owned()
    }
}

/// The daemon under test.
#[derive(Clone)]
pub struct Daemon {
    pub client: Client,
    pub pid: u64,
}

impl Daemon {
    /// Starts `n` at once.
    pub async fn start(&self, argv: &[&str], n: usize) -> Result<Vec<String>> {
        let specs = (0..n).map(|_| spec(argv)).collect();
        self.start_all(specs).await
    }

    pub async fn start_all(&self, specs: Vec<Spec>) -> Result<Vec<String>> {
        let spawn = |spec| {
            let client = self.client.clone();
            async move { client.spawn(&spec, WorkerStdio::default()).await }
        };
        let spawned = all(specs.into_iter().map(spawn), 200).await;
        let mut ids = Vec::new();
        for spawned in spawned {
            ids.push(spawned?.id);
        }
        Ok(ids)
    }

    /// Waits for the end of all.
    pub async fn wait_all(&self, ids: &[String]) -> Result<()> {
        let wait = |id: String| {
            let client = self.client.clone();
            async move { client.wait(&id).await }
        };
        for waited in all(ids.iter().cloned().map(wait), 20_000).await {
            waited?;
        }
        Ok(())
    }

    /// Ends all at once.
    pub async fn end_all(&self, ids: &[String]) -> Result<()> {
        let cancel = |id: String| {
            let client = self.client.clone();
            let how = CancelOptions {
                now: true,
                ..CancelOptions::default()
            };
            async move { client.cancel(&id, "bench", how).await }
        };
        for cancelled in all(ids.iter().cloned().map(cancel), 200).await {
            cancelled?;
        }
        self.wait_all(ids).await
    }
}

/// All futures on this thread, `window` at a time; their results in order.
pub async fn all<F>(futures: impl Iterator<Item = F>, window: usize) -> Vec<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let permits = std::rc::Rc::new(tokio::sync::Semaphore::new(window));
    let tasks: Vec<_> = futures
        .map(|future| {
            let permits = permits.clone();
            tokio::task::spawn_local(async move {
                let _permit = permits.acquire().await;
                future.await
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        if let Ok(result) = task.await {
            results.push(result);
        }
    }
    results
}

/// A worker with the least environment.
pub fn spec(argv: &[&str]) -> Spec {
    Spec {
        argv: argv.iter().map(|a| (*a).into()).collect(),
        cwd: "/".into(),
        env: Environment(vec!["PATH=/usr/bin:/bin".into()]),
        ..Spec::default()
    }
}

/// Runs a command to its end.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let out = Command::new(program).args(args).output()?;
    if !out.status.success() {
        let what = String::from_utf8_lossy(&out.stderr).into_owned();
        return Err(format!("{program} {}: {what}", args.join(" ")).into());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A program that says when it is ready and goes on at a line of its stdin. Killed when dropped.
pub struct Helper {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Helper {
    pub fn start(program: &Path, args: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no stdout")?;
        let mut helper = Self {
            child,
            out: BufReader::new(out),
        };
        match helper.line()?.trim() {
            "ready" => Ok(helper),
            _ => Err(format!("{} did not become ready", program.display()).into()),
        }
    }

    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    pub fn go_on(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().ok_or("no stdin")?;
        Ok(stdin.write_all(b"\n")?)
    }

    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        Ok(line)
    }

    /// Waits for its end; the end of its stdin is a word to go on, too.
    pub fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Microseconds since `began`.
pub fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}
