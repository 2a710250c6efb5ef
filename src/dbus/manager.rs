//! Methods of the manager: convert, ask, convert. What a caller may do is decided by the
//! supervisor; [`Call::ask`] fetches a right it lacks.

use super::convert::{self, FORGET_KEYS};
use super::dict::{Dict, NO_KEYS, Received};
use super::dispatch::Call;
use super::errors::{Code, Failure};
use super::list::ListRow;
use super::object_path;
use super::spec::spec_from_dict;
use crate::supervisor::handle::{Caller, CancelOptions, ListFilter, Right, Stdio, WorkerView};
use crate::supervisor::refused::Refused;
use crate::worker::{Pid, Spec};
use zbus::Message;

/// Rows in the Status of the whole.
const STATUS_ROWS: u32 = 1000;

/// The reply to a call of `org.muster1.Manager`; its signature has been checked.
pub async fn answer(call: &Call<'_>, member: &str) -> Result<Message, Failure> {
    match member {
        "Spawn" => spawn(call).await,
        "GetWorker" => get_worker(call).await,
        "GetWorkerByPID" => get_worker_by_pid(call).await,
        "ListWorkers" => list_workers(call).await,
        "Status" => status(call).await,
        "Cancel" => {
            let (worker, reason, options) = call.arguments()?;
            cancel(call, worker, reason, options).await
        }
        "Wait" => wait(call).await,
        "Kill" => {
            let (worker, whom, signal, options): (String, String, i32, Received) =
                call.arguments()?;
            kill(call, worker, &whom, signal, options).await
        }
        "Send" => {
            let (worker, frame, options) = call.arguments()?;
            send(call, worker, frame, options).await
        }
        "Freeze" => freeze(call, "Freeze", true).await,
        "Thaw" => freeze(call, "Thaw", false).await,
        "Adopt" => super::adopt::adopt(call).await,
        "Attend" => super::adopt::attend(call).await,
        "Report" => super::report::report(call).await,
        "Reap" => reap(call).await,
        "Hold" => hold(call).await,
        "Forget" => forget(call).await,
        "Restore" => restore(call).await,
        "Drain" => drain(call).await,
        "Resume" => resume(call).await,
        "Reload" => reload(call).await,
        "GetMetrics" => {
            let () = call.arguments()?;
            call.reply(&super::metrics::text(&call.handle().service().await?))
        }
        _ => Err(not_yet(member)),
    }
}

/// A method of the contract that this version does not carry out.
pub fn not_yet(member: &str) -> Failure {
    Failure::new(
        Code::NotSupported,
        format!("{member} is not supported by this version of musterd"),
    )
}

fn copy(stdio: &Stdio) -> std::io::Result<Stdio> {
    let copy = |fd: &Option<std::os::fd::OwnedFd>| fd.as_ref().map(|fd| fd.try_clone()).transpose();
    Ok(Stdio {
        stdin: copy(&stdio.stdin)?,
        stdout: copy(&stdio.stdout)?,
        stderr: copy(&stdio.stderr)?,
    })
}

async fn spawn(call: &Call<'_>) -> Result<Message, Failure> {
    let (spec, stdio): (Spec, Stdio) = spec_from_dict(call.arguments()?)?;
    // Parent and depth come from the caller's process (section 5).
    if call.who.has_gone() {
        return Err(Refused::CallerGone.into());
    }
    let ask = |caller| {
        let (spec, stdio) = (spec.clone(), copy(&stdio));
        async move {
            let stdio = stdio.map_err(|e| Refused::Io(format!("cannot copy a descriptor: {e}")))?;
            call.handle().spawn(caller, spec, stdio).await
        }
    };
    let spawned = call.ask(ask).await?;
    call.reply(&convert::spawned(&spawned))
}

async fn get_worker(call: &Call<'_>) -> Result<Message, Failure> {
    let worker: String = call.arguments()?;
    let ask = |caller| call.handle().resolve(caller, worker.clone());
    let id = call.ask_to_see(ask).await?;
    call.reply(&object_path(id))
}

async fn get_worker_by_pid(call: &Call<'_>) -> Result<Message, Failure> {
    let number: u32 = call.arguments()?;
    let pid = Pid::new(i64::from(number))
        .map_err(|e| Failure::invalid(format!("GetWorkerByPID: {e}")))?;
    let ask = |caller| call.handle().by_pid(caller, pid);
    let id = call.ask_to_see(ask).await?;
    call.reply(&object_path(id))
}

async fn list_workers(call: &Call<'_>) -> Result<Message, Failure> {
    let filter = convert::filter_from_dict(call.arguments()?)?;
    let rows = rows(call, filter, |by, what| call.handle().list(by, what)).await?;
    call.reply(&rows.iter().map(ListRow).collect::<Vec<_>>())
}

/// One page of what the caller may see: without the right to list others' rows its own.
pub async fn rows<T, F>(
    call: &Call<'_>,
    mut filter: ListFilter,
    list: impl Fn(Caller, ListFilter) -> F,
) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<Vec<T>, Refused>>,
{
    match call.ask_to_see(|caller| list(caller, filter.clone())).await {
        Err(failure) if failure.code == Code::AccessDenied => {}
        answer => return answer,
    }
    let own = call.who.uid;
    if filter.owner.is_some_and(|owner| owner != own) {
        return Ok(Vec::new());
    }
    filter.owner = Some(own);
    call.ask(|caller| list(caller, filter.clone())).await
}

/// Status of the whole service.
#[derive(serde::Serialize)]
struct Whole {
    service: crate::supervisor::handle::ServiceView,
    workers: Vec<WorkerView>,
}

/// Status of one worker: its row, and who works for it from elsewhere.
#[derive(serde::Serialize)]
struct One {
    #[serde(flatten)]
    view: WorkerView,
    outside: Vec<crate::supervisor::outside::Outsider>,
}

async fn status(call: &Call<'_>) -> Result<Message, Failure> {
    let worker: String = call.arguments()?;
    let json = if worker.is_empty() {
        let filter = ListFilter {
            limit: STATUS_ROWS,
            ..ListFilter::default()
        };
        let mut workers = rows(call, filter, |by, what| call.handle().views(by, what)).await?;
        for worker in &mut workers {
            worker.argv = convert::short(&worker.argv);
        }
        let service = call.handle().service().await?;
        serde_json::to_string(&Whole { service, workers })
    } else {
        let ask = |caller| call.handle().view(caller, worker.clone());
        let view = call.ask_to_see(ask).await?;
        let ask = |caller| call.handle().outside(caller, worker.clone());
        // Who may see the row but not manage it is told of no process.
        let outside = call.ask_to_see(ask).await.unwrap_or_default();
        serde_json::to_string(&One {
            view: *view,
            outside,
        })
    };
    let json = json.map_err(|e| Failure::new(Code::Other, e.to_string()))?;
    call.reply(&json)
}

/// Cancel, of the manager and of a worker.
pub async fn cancel(
    call: &Call<'_>,
    worker: String,
    reason: String,
    options: Received,
) -> Result<Message, Failure> {
    let options: CancelOptions = convert::cancel_from_dict(options)?;
    let ask = |caller| {
        let (worker, reason) = (worker.clone(), reason.clone());
        call.handle().cancel(caller, worker, reason, options)
    };
    let answer = call.ask(ask).await?;
    call.reply(&convert::cancelled(&answer))
}

async fn wait(call: &Call<'_>) -> Result<Message, Failure> {
    let (worker, options): (String, Received) = call.arguments()?;
    Dict::checked("Wait", options, NO_KEYS)?;
    let ask = |caller| call.handle().wait(caller, worker.clone());
    let ended = call.ask(ask).await?;
    call.reply(&convert::ended(&ended))
}

/// Kill, of the manager and of a worker.
pub async fn kill(
    call: &Call<'_>,
    worker: String,
    whom: &str,
    signal: i32,
    options: Received,
) -> Result<Message, Failure> {
    Dict::checked("Kill", options, NO_KEYS)?;
    let whom = convert::whom_from_word(whom)?;
    let range = 1..=64;
    if !range.contains(&signal) {
        let why = format!("Kill: {signal} is not a signal number between 1 and 64");
        return Err(Failure::invalid(why));
    }
    let ask = |caller| call.handle().kill(caller, worker.clone(), whom, signal);
    call.ask(ask).await?;
    call.reply(&())
}

/// Send, of the manager and of a worker.
pub async fn send(
    call: &Call<'_>,
    worker: String,
    frame: String,
    options: Received,
) -> Result<Message, Failure> {
    Dict::checked("Send", options, NO_KEYS)?;
    let ask = |caller| call.handle().send(caller, worker.clone(), frame.clone());
    call.ask(ask).await?;
    call.reply(&())
}

async fn freeze(call: &Call<'_>, what: &'static str, frozen: bool) -> Result<Message, Failure> {
    let (worker, options): (String, Received) = call.arguments()?;
    Dict::checked(what, options, NO_KEYS)?;
    let ask = |caller| call.handle().freeze(caller, worker.clone(), frozen);
    call.ask(ask).await?;
    call.reply(&())
}

async fn reap(call: &Call<'_>) -> Result<Message, Failure> {
    let options = convert::reap_from_dict(call.arguments()?)?;
    let ask = |caller| call.handle().reap(caller, options.clone());
    // All rows where the caller may manage all; nobody types a password for a sweep of its own.
    let rights = call.optional(Right::ManageAll).await?;
    let report = call.ask_with(rights, ask).await?;
    call.reply(&convert::report(report))
}

async fn hold(call: &Call<'_>) -> Result<Message, Failure> {
    let (worker, held, options): (String, bool, Received) = call.arguments()?;
    Dict::checked("Hold", options, NO_KEYS)?;
    let ask = |caller| call.handle().hold(caller, worker.clone(), held);
    call.ask(ask).await?;
    call.reply(&())
}

async fn forget(call: &Call<'_>) -> Result<Message, Failure> {
    let (worker, options): (String, Received) = call.arguments()?;
    let mut options = Dict::checked("Forget", options, FORGET_KEYS)?;
    let force = options.take("force")?.unwrap_or_default();
    let ask = |caller| call.handle().forget(caller, worker.clone(), force);
    call.ask(ask).await?;
    call.reply(&())
}

async fn restore(call: &Call<'_>) -> Result<Message, Failure> {
    let (worker, options): (String, Received) = call.arguments()?;
    Dict::checked("Restore", options, NO_KEYS)?;
    let ask = |caller| call.handle().restore(caller, worker.clone());
    let id = call.ask(ask).await?;
    call.reply(&object_path(id))
}

async fn drain(call: &Call<'_>) -> Result<Message, Failure> {
    let (reason, options): (String, Received) = call.arguments()?;
    let options = convert::drain_from_dict(options)?;
    let ask = |caller| call.handle().drain(caller, reason.clone(), options);
    call.ask(ask).await?;
    call.reply(&())
}

async fn resume(call: &Call<'_>) -> Result<Message, Failure> {
    Dict::checked("Resume", call.arguments()?, NO_KEYS)?;
    call.ask(|caller| call.handle().resume(caller)).await?;
    call.reply(&())
}

async fn reload(call: &Call<'_>) -> Result<Message, Failure> {
    let options: Received = call.arguments()?;
    Dict::checked("Reload", options, NO_KEYS)?;
    let generation = call.ask(|caller| call.handle().reload(caller)).await?;
    call.reply(&generation)
}
