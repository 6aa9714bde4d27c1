//! Rows gathered into groups, which are encoded by several threads and come back in their order.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parquet::errors::{ParquetError, Result};

use super::group::{Group, Layout};
use crate::row::Row;

/// A group has no more rows than this.
const GROUP_ROWS: usize = 128;

/// A group is closed once its texts have this many bytes; one row may be longer.
const GROUP_BYTES: u64 = 16 << 20;

/// A group is closed once its rows have this many messages; one row may have more. Each costs some dozens of bytes beside its text.
const GROUP_MESSAGES: usize = 1 << 17;

/// More threads than this are not begun; each holds a group or two.
const THREADS: usize = 4;

/// The rows of a set on their way into groups. Which rows become one group depends on nothing but the rows.
pub(super) struct Groups {
    layout: Arc<Layout>,
    /// A group is closed at so many bytes of texts.
    limit: u64,
    rows: Vec<Row>,
    messages: usize,
    text_bytes: u64,
    threads: Vec<Thread>,
    /// Groups that were handed to threads, each to the next one in turn.
    begun: usize,
    /// Groups that came back.
    taken: usize,
}

struct Thread {
    rows: SyncSender<(Vec<Row>, u64)>,
    groups: Receiver<Result<Group>>,
}

impl Groups {
    /// Gathers rows into groups whose texts have at most about `limit` bytes.
    pub(super) fn new(layout: Arc<Layout>, limit: u64) -> Self {
        let limit = limit.min(GROUP_BYTES);
        Self {
            layout,
            limit,
            rows: Vec::new(),
            messages: 0,
            text_bytes: 0,
            threads: Vec::new(),
            begun: 0,
            taken: 0,
        }
    }

    /// Adds a row with texts of so many bytes; gives back the group that was begun first where too many are being encoded.
    pub(super) fn push(&mut self, row: Row, text_bytes: u64) -> Result<Option<Group>> {
        self.messages += row.conversations.len();
        self.text_bytes += text_bytes;
        self.rows.push(row);
        let is_full =
            self.rows.len() >= GROUP_ROWS || self.messages >= GROUP_MESSAGES || self.text_bytes >= self.limit;
        if is_full { self.begin() } else { Ok(None) }
    }

    /// The next group once no rows follow; `None` when all came back.
    pub(super) fn next(&mut self) -> Result<Option<Group>> {
        if !self.rows.is_empty()
            && let Some(group) = self.begin()?
        {
            return Ok(Some(group));
        }
        if self.taken == self.begun { Ok(None) } else { self.take().map(Some) }
    }

    fn begin(&mut self) -> Result<Option<Group>> {
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let done = if self.begun - self.taken > most { Some(self.take()?) } else { None };
        if self.threads.len() < most && self.threads.len() == self.begun {
            self.threads.push(Thread::new(Arc::clone(&self.layout)));
        }
        let thread = &self.threads[self.begun % self.threads.len()];
        let rows = (std::mem::take(&mut self.rows), std::mem::take(&mut self.text_bytes));
        self.messages = 0;
        thread.rows.send(rows).map_err(|_| gone())?;
        self.begun += 1;
        Ok(done)
    }

    fn take(&mut self) -> Result<Group> {
        let thread = &self.threads[self.taken % self.threads.len()];
        self.taken += 1;
        thread.groups.recv().map_err(|_| gone())?
    }
}

impl Thread {
    fn new(layout: Arc<Layout>) -> Self {
        let (rows, to_encode) = sync_channel::<(Vec<Row>, u64)>(1);
        let (encoded, groups) = sync_channel(1);
        std::thread::spawn(move || {
            for (rows, text_bytes) in to_encode {
                // Nobody takes any more once the set was given up.
                if encoded.send(layout.encode(&rows, text_bytes)).is_err() {
                    return;
                }
            }
        });
        Self { rows, groups }
    }
}

fn gone() -> ParquetError {
    ParquetError::General("a thread that encodes groups ended early".into())
}
