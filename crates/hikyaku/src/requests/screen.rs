//! A terminal that is redrawn and whose keys are read one by one; left as it was found.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};

/// Another screen, without a cursor, and the way back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The terminal while it is ours.
pub(super) struct Screen {
    before: Termios,
}

impl Screen {
    /// Takes the terminal over; `None` if standard input or output is none.
    pub(super) fn enter() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(io::stdin())?;
        let mut ours = before.clone();
        // Ctrl-C stays a signal.
        ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(io::stdin(), OptionalActions::Now, &ours)?;
        let screen = Self { before };
        let mut stdout = io::stdout();
        stdout.write_all(ENTER)?;
        stdout.flush()?;
        Ok(Some(screen))
    }

    /// Shows these lines, as many and as much of each as there is room for.
    #[expect(clippy::unused_self, reason = "only who has the screen may use it")]
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout())?;
        let (rows, columns) = (size.ws_row.max(2), size.ws_col.max(20));
        let mut text = String::from("\x1b[H");
        for line in lines.iter().take(usize::from(rows) - 1) {
            text.extend(
                line.chars()
                    .filter(|c| !c.is_control())
                    .take(usize::from(columns)),
            );
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        let mut stdout = io::stdout();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Waits so long for a key.
    #[expect(clippy::unused_self, reason = "only who has the screen may use it")]
    pub(super) fn key(&self, patience: Duration) -> io::Result<Option<u8>> {
        let stdin = io::stdin();
        let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        match poll(&mut asked, Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut key = [0];
        // Past the library's buffer, which `poll` knows nothing of.
        match rustix::io::read(&stdin, &mut key)? {
            // The terminal has gone.
            0 => Ok(Some(b'q')),
            _ => Ok(key.first().copied()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is there to be told.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        let mut stdout = io::stdout();
        let _ = stdout.write_all(LEAVE).and_then(|()| stdout.flush());
    }
}
