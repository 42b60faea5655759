//! Keeps keys out of the environment of this process.
//!
//! `/proc/<pid>/environ` shows the environment that a process was started with, whatever it does
//! afterwards, and every command that an agent runs can read it. So `chat` immediately restarts
//! itself in place: the same process, arguments and name, without these variables. Their values
//! wait in a socket that is the standard input of the new program, together with the real standard
//! input, which then takes its place again. On Linux, other processes of the same user cannot
//! inspect the process then. Invariants: nothing is waited for; a standard input that is not such a
//! socket stays as it is; if anything fails, the program continues as it would have without this.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// Variables that were removed from the environment, and their values.
#[derive(Default)]
pub(crate) struct Handed(BTreeMap<String, String>);

impl Handed {
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handed").finish_non_exhaustive()
    }
}

/// Whether a command line asks for the agent. A command line that contains the word for another
/// reason restarts too, which has no effect.
fn is_chat(args: &[OsString]) -> bool {
    args.iter().skip(1).any(|arg| arg == "chat")
}

/// Removes the keys from the environment, if the user asked for the agent. `given` is the original
/// command line, `meant` what it means. In the restarted program, returns the keys.
#[cfg(unix)]
pub(crate) fn take(given: &[OsString], meant: &[OsString]) -> Handed {
    if !is_chat(meant) {
        return Handed::default();
    }
    let handed = unix::received().unwrap_or_else(|| {
        unix::hand_over(given);
        Handed::default()
    });
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // If this is not possible, other processes can inspect this one; nothing can be done about
        // it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    handed
}

#[cfg(not(unix))]
pub(crate) fn take(_: &[OsString], meant: &[OsString]) -> Handed {
    // On this system, only the process that started another can read its environment.
    let _ = is_chat(meant);
    Handed::default()
}

#[cfg(unix)]
mod unix {
    use std::ffi::{OsStr, OsString};
    use std::io::{self, IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
    };
    use rustix::stdio::dup2_stdin;

    use super::Handed;

    /// Marks that the standard input is such a socket: the id of this process, which does not
    /// change.
    const MARK: &str = agent::secret::HANDOVER;
    /// The start of the message.
    const HEAD: &[u8] = b"quipu\0";
    /// No keys are longer than this.
    const LONGEST: usize = 1 << 17;

    /// What was handed over to this process; `None` if nothing was.
    pub(super) fn received() -> Option<Handed> {
        let pid = std::process::id().to_string();
        std::env::vars_os().find(|(name, value)| name == MARK && value.to_str() == Some(&pid))?;
        let input = io::stdin();
        // Peeks first, so that the input of a host is not consumed.
        let mut first = [0; HEAD.len()];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&input, &mut first[..], flags).ok().filter(|_| first == *HEAD)?;
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | CLOEXEC;
        let got = recvmsg(&input, &mut [IoSliceMut::new(&mut bytes)], &mut rights, flags).ok()?;
        let real: Option<OwnedFd> = rights.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut all) => all.next(),
            _ => None,
        });
        dup2_stdin(real?).ok()?;
        let texts = bytes[HEAD.len()..got.bytes].split(|byte| *byte == 0);
        let texts: Vec<String> =
            texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        let pairs = texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        Some(Handed(pairs.collect()))
    }

    #[cfg(target_os = "linux")]
    const CLOEXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    const CLOEXEC: RecvFlags = RecvFlags::empty();

    /// Restarts the program without the keys, if there are any. Returns only if that is not
    /// possible.
    pub(super) fn hand_over(given: &[OsString]) {
        let is_key = |(name, value): &(OsString, OsString)| {
            name.to_str()
                .is_some_and(|name| agent::secret::is_secret(name, &value.to_string_lossy()))
        };
        let keys: Vec<(OsString, OsString)> = std::env::vars_os().filter(is_key).collect();
        if keys.is_empty() {
            return;
        }
        // If this fails, the keys stay in the environment: commands do not inherit them, but can
        // read them there.
        let Ok(real) = io::stdin().as_fd().try_clone_to_owned() else { return };
        let _ = start_again(given, &keys);
        let _ = dup2_stdin(real);
    }

    fn start_again(given: &[OsString], keys: &[(OsString, OsString)]) -> io::Result<()> {
        let mut message = HEAD.to_vec();
        for text in keys.iter().flat_map(|(name, value)| [name, value]) {
            message.extend_from_slice(text.as_encoded_bytes());
            message.push(0);
        }
        let (sender, receiver) = UnixStream::pair()?;
        {
            let input = io::stdin();
            let fds = [input.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            rights.push(SendAncillaryMessage::ScmRights(&fds));
            let flags = SendFlags::DONTWAIT;
            let sent = sendmsg(&sender, &[IoSlice::new(&message)], &mut rights, flags)?;
            if sent < message.len() || message.len() > LONGEST {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        dup2_stdin(&receiver)?;
        let program = std::env::current_exe().ok().filter(|path| path.is_file());
        let mut command = Command::new(program.as_deref().unwrap_or(Path::new("/proc/self/exe")));
        let name = given.first().map_or(OsStr::new("quipu"), OsString::as_os_str);
        command.arg0(name).args(given.iter().skip(1)).env(MARK, std::process::id().to_string());
        for (name, _) in keys {
            command.env_remove(name);
        }
        Err(command.exec())
    }
}
