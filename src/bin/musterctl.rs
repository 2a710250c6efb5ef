//! musterctl, the client.

fn main() -> std::process::ExitCode {
    musterd::client::main()
}
