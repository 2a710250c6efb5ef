//! Methods of a worker's object: the manager's, with the worker given by the path.

use zbus::Message;

use super::dict::Received;
use super::dispatch::Call;
use super::errors::Failure;
use super::manager;
use crate::worker::WorkerId;

/// The reply to a call of `org.muster1.Worker`; its signature has been checked.
pub async fn answer(call: &Call<'_>, id: WorkerId, member: &str) -> Result<Message, Failure> {
    match member {
        "Cancel" => {
            let (reason, options): (String, Received) = call.arguments()?;
            manager::cancel(call, id.to_string(), reason, options).await
        }
        "Kill" => {
            let (whom, signal, options): (String, i32, Received) = call.arguments()?;
            manager::kill(call, id.to_string(), &whom, signal, options).await
        }
        "Send" => {
            let (frame, options): (String, Received) = call.arguments()?;
            manager::send(call, id.to_string(), frame, options).await
        }
        _ => Err(manager::not_yet(member)),
    }
}
