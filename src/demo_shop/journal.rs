//! The shop's journal: one request a line, on disk before it is answered.
//!
//! A thread of its own writes what has gathered while the disk was busy with one call of `fsync`.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, Seek, SeekFrom, Write},
    path::Path,
    sync::mpsc,
};

use tokio::sync::oneshot;

use super::{Error, ledger::Request};

/// Lines that are written with one `fsync`.
const LINES_A_WRITE: usize = 1024;

pub struct Journal {
    lines: mpsc::Sender<Line>,
}

struct Line {
    text: String,
    written: oneshot::Sender<Written>,
}

type Written = Result<(), String>;

impl Journal {
    /// Takes the file for this process alone, reads its records, and cuts off a last line that a kill left unfinished.
    pub fn open(path: &Path) -> Result<(Self, Vec<Request>), Error> {
        let failed = |why| Error::Journal { path: path.to_owned(), why };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(path.to_owned())),
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        let requests = replay(&file, path)?;
        let (lines, queue) = mpsc::channel();
        std::thread::Builder::new()
            .name("shop-journal".into())
            .spawn(move || write_all(file, &queue))
            .map_err(failed)?;
        Ok((Self { lines }, requests))
    }

    /// Queues a record; the receiver is told once it is on disk.
    pub fn append(&self, request: &Request) -> oneshot::Receiver<Written> {
        let mut text = serde_json::to_string(request).unwrap_or_else(|e| unreachable!("a request is plain data: {e}"));
        text.push('\n');
        let (written, told) = oneshot::channel();
        // If the writer is gone, the sender is dropped with the line, and the receiver knows.
        let _ = self.lines.send(Line { text, written });
        told
    }
}

fn replay(file: &File, path: &Path) -> Result<Vec<Request>, Error> {
    let failed = |why| Error::Journal { path: path.to_owned(), why };
    let mut reader = BufReader::new(file);
    let mut requests = Vec::new();
    let mut whole = 0u64;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(failed)?;
        if !line.ends_with(b"\n") {
            break;
        }
        let request = serde_json::from_slice(&line).map_err(|why| Error::Corrupt {
            path: path.to_owned(),
            line: requests.len() + 1,
            why,
        })?;
        requests.push(request);
        whole += read as u64;
    }
    file.set_len(whole).map_err(failed)?;
    reader.seek(SeekFrom::End(0)).map_err(failed)?;
    Ok(requests)
}

fn write_all(mut file: File, queue: &mpsc::Receiver<Line>) {
    let mut broken: Option<String> = None;
    while let Ok(first) = queue.recv() {
        let mut text = String::new();
        let mut waiting = Vec::new();
        for line in std::iter::once(first).chain(queue.try_iter().take(LINES_A_WRITE - 1)) {
            text.push_str(&line.text);
            waiting.push(line.written);
        }
        // After a failed write the books in memory are ahead of the file: nothing more is promised.
        if broken.is_none()
            && let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_data())
        {
            tracing::error!(%error, "the demo shop's journal cannot be written");
            broken = Some(error.to_string());
        }
        for written in waiting {
            let _ = written.send(broken.clone().map_or(Ok(()), Err));
        }
    }
}
