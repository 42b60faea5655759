//! One file as a conversation: its table, the graph of its records, and its turns.
//!
//! - [`place`] knows where sessions, sub-agents and their side files are, and how folders are
//!   named; [`preview`] finds out what a session is about from its first and last bytes;
//! - [`Conversation`] is one session: a [`table`] (every record, without its texts), a [`graph`]
//!   (which record is the parent of which) and [`turn`]s (what was asked and done);
//! - [`agents`] finds the sub-agents of a session, and [`lineage`] the other sessions that share
//!   its records; [`parting`] compares two of them turn by turn;
//! - [`id`] has the types of their names;
//! - [`ingest`] lists what there is of a session for programs that keep it elsewhere: units with
//!   names that stay the same, and which file reports them;
//! - [`view`] decides what is shown, with [`tool`], [`mod@diff`] and [`event`]; [`markdown`] lays
//!   it out;
//! - [`usage`] counts tokens, [`price`] knows what models cost, [`inventory`] counts the rest.
//!
//! The starting point of the commands that show a session. Texts are read from the file when they
//! are needed; the session's own file stays open, so that what is shown is what was read.

pub mod agents;
pub(crate) mod cycles;
pub mod diff;
pub mod event;
pub mod graph;
pub mod id;
pub mod ingest;
pub mod inventory;
pub mod lineage;
pub mod markdown;
pub mod parting;
pub mod place;
pub mod preview;
pub mod price;
pub mod table;
pub mod tool;
pub mod turn;
pub mod usage;
pub mod view;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use crate::client::history::{self, Rules};
use crate::conversation::graph::{ChainId, Graph, repeats};
use crate::conversation::place::is_agent;
use crate::conversation::table::{BlockId, GrowingTable, Growth, RowId, Table, Watch, changed};
use crate::conversation::turn::{Builder, Pairs, Turn};
use crate::error::{AtPath, Error};
use crate::format::content::Block;
use crate::format::entry::Entry;
use crate::format::file::{From, Lines, lines_before, read_at};
use crate::format::json::Json;
use crate::format::limit::READ_BLOCK;
use crate::format::threads::{self, lock};

/// A file, with its records read and linked.
#[derive(Debug)]
pub struct Conversation {
    /// The path of the file.
    pub path: PathBuf,
    /// Kept open, so that what is shown is what was read. `None` for sub-agents' files, of which
    /// there may be many.
    file: Option<File>,
    /// Pieces that were read ahead, for as many threads as read at once.
    windows: Mutex<Vec<Window>>,
    /// Its records.
    pub table: Table,
    /// Which record is the parent of which, and the chains that this forms.
    pub graph: Graph,
    /// Which result answers which call.
    pub pairs: Pairs,
    /// The client version that resumes it, and the record that this version resumes from, computed
    /// when it is first needed.
    rules: Rules,
    leaf: OnceLock<Option<RowId>>,
}

/// A piece of a file that was read ahead.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    /// Where the last read ended.
    end: u64,
}

/// A record that begins within this many bytes after the last one counts as the next one. Without
/// this bound, reading ahead would read the whole file even where most records are skipped.
const NEAR: u64 = 4 << 10;

/// How many records are read at a time by one thread, and how many such pieces wait for each.
const FEW: usize = 512;
const WAITING: usize = 4;

/// How many pieces of a file are kept for the next reads.
const WINDOWS: usize = 4;

impl Window {
    /// Bytes of the file. Records are mostly read one after the other; in that case more is read at
    /// once.
    fn get(&mut self, file: &File, offset: u64, len: u64) -> crate::Result<Cow<'_, [u8]>> {
        if self.held(offset, len).is_none() {
            let is_next = self.is_next(offset);
            self.end = offset + len;
            if !is_next || len > READ_BLOCK as u64 {
                return read_at(file, offset, len).map(Cow::Owned);
            }
            let before = std::mem::take(&mut self.bytes);
            self.bytes = From::new(file, offset).read_up_to(READ_BLOCK, before)?;
            self.start = offset;
            self.end = offset + self.bytes.len() as u64;
        }
        match self.held(offset, len) {
            Some(found) => Ok(Cow::Borrowed(found)),
            None => read_at(file, offset, len).map(Cow::Owned),
        }
    }

    fn is_next(&self, offset: u64) -> bool {
        offset >= self.end && offset - self.end < NEAR
    }

    /// Whether it holds that byte, or goes on there.
    fn is_near(&self, offset: u64) -> bool {
        self.held(offset, 1).is_some() || self.is_next(offset)
    }

    fn held(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.bytes.get(start..end)
    }
}

/// Reads one record after the other.
pub(crate) struct Look<'a> {
    conversation: &'a Conversation,
    window: Window,
}

impl Look<'_> {
    /// Passes the record of a row to `see`.
    pub(crate) fn record<T>(
        &mut self,
        row: RowId,
        see: impl FnOnce(&Entry<'_>) -> T,
    ) -> crate::Result<T> {
        self.conversation.look_by(&mut self.window, row, see)
    }

    /// Passes one block to `see`, if it can be read alone; nothing else of its record is read.
    pub(crate) fn block<T>(
        &mut self,
        block: BlockId,
        see: impl FnOnce(Block<'_>) -> T,
    ) -> crate::Result<Option<T>> {
        let table = &self.conversation.table;
        let Some(range) = table.range(block) else { return Ok(None) };
        let offset = table.row(table.block(block).row).offset + range.start as u64;
        self.conversation.with_file(|file| {
            see_block(&self.window.get(file, offset, range.len() as u64)?, see).map(Some)
        })
    }
}

/// Passes a block to `see` that is all of these bytes.
fn see_block<T>(bytes: &[u8], see: impl FnOnce(Block<'_>) -> T) -> crate::Result<T> {
    let block = Block::of(Json::trusted(bytes));
    let whole = block.filter(|block| block.json().raw().len() == bytes.len());
    whole.map_or_else(|| Err(changed()), |block| Ok(see(block)))
}

/// The turns of a conversation.
#[derive(Debug)]
pub struct Turns {
    /// The turns of the live branch: the one that the newest client continues, unless
    /// [`Conversation::resume_as`] named another version.
    pub live: Vec<Turn>,
    /// The turns of the other chains of the main conversation: abandoned branches.
    pub dead: Vec<(ChainId, Vec<Turn>)>,
    /// The turns of sub-agents in the same file.
    pub side: Vec<(ChainId, Vec<Turn>)>,
    /// The last line of the last complete live turn; 0 if none is complete.
    pub consumed: u64,
}

impl Conversation {
    /// Reads a file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("0a1b2c3d.jsonl");
    /// # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
    /// # std::fs::write(&path, format!("{line}\n"))?;
    /// use transcript::Conversation;
    ///
    /// let conversation = Conversation::open(&path)?;
    /// for turn in conversation.turns().live {
    ///     println!("lines {:?}, {} steps", turn.rows, turn.steps.len());
    /// }
    /// assert_eq!(conversation.turns().live.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path) -> crate::Result<Conversation> {
        Conversation::open_from(path, 0)
    }

    /// Makes the branch that this client version resumes the live one.
    pub fn resume_as(&mut self, rules: Rules) {
        (self.rules, self.leaf) = (rules, OnceLock::new());
    }

    /// The record that the client resumes from. The client is the newest version, unless
    /// [`Conversation::resume_as`] set another.
    pub fn leaf(&self) -> Option<RowId> {
        *self.leaf.get_or_init(|| history::leaf(&self.table, self.rules))
    }

    /// Where the conversation that is shown ends: at the leaf, or, in a file that the client does
    /// not resume, at the last message.
    pub fn end(&self) -> Option<RowId> {
        self.graph.end(&self.table, self.leaf())
    }

    /// The chains of the live branch; empty if there is no message.
    pub fn live(&self) -> Vec<ChainId> {
        let path = |end| self.graph.path(self.graph.chain_of(end));
        self.end().map_or_else(Vec::new, path)
    }

    /// The number of a record's line in its file, even if only a part of the file was read.
    pub fn line(&self, row: RowId) -> crate::Result<u64> {
        let before = self.with_file(|file| lines_before(file, self.table.start))?;
        Ok(before + self.table.row(row).line)
    }

    /// Reads a file from the line that begins at `offset`. The lines before it are not counted:
    /// line numbers begin there.
    pub fn open_from(path: &Path, offset: u64) -> crate::Result<Conversation> {
        Conversation::open_watched(path, offset, &mut ())
    }

    /// Reads the lines of a file that begin before `end`.
    pub fn open_until(path: &Path, end: u64) -> crate::Result<Conversation> {
        let file = files::open(path).at(path)?;
        let lines = Lines::from(From::new(&file, 0).take(end), 0, 0);
        let table = Table::read(lines).at(path)?;
        Ok(Conversation::of_table(file, path, table).linked())
    }

    /// Reads a file that may have grown since `growing` was read: only what is new. One that was
    /// written anew is read as a whole.
    pub fn open_growing(path: &Path, growing: &mut GrowingTable) -> crate::Result<Conversation> {
        let file = files::open(path).at(path)?;
        if growing.extend(&file).at(path)? == Growth::Replaced {
            *growing = GrowingTable::default();
            growing.extend(&file).at(path)?;
        }
        let table = growing.table_to_end(&file).at(path)?;
        Ok(Conversation::of_table(file, path, table).linked())
    }

    /// Like `open_from`, and shows each record to `watch`.
    pub(crate) fn open_watched(
        path: &Path,
        offset: u64,
        watch: &mut impl Watch,
    ) -> crate::Result<Conversation> {
        Conversation::of_file(files::open(path).at(path)?, path, offset, watch)
    }

    /// Like `open_watched` for a file that is already open, whatever its path leads to by now.
    pub(crate) fn of_file(
        file: File,
        path: &Path,
        offset: u64,
        watch: &mut impl Watch,
    ) -> crate::Result<Conversation> {
        Ok(Conversation::unlinked(file, path, offset, watch)?.linked())
    }

    fn linked(mut self) -> Conversation {
        self.graph = Graph::new(&self.table);
        self.table.mark_repeats(&repeats(&self.table, &self.graph));
        self.pairs = Pairs::new(&self.table);
        self
    }

    /// Reads a file without its graph, for callers that need neither parents nor turns.
    pub(crate) fn open_unlinked(path: &Path, offset: u64) -> crate::Result<Conversation> {
        Conversation::unlinked(files::open(path).at(path)?, path, offset, &mut ())
    }

    fn unlinked(
        file: File,
        path: &Path,
        offset: u64,
        watch: &mut impl Watch,
    ) -> crate::Result<Conversation> {
        let mut table = Table::read_file(&file, offset, watch).at(path)?;
        table.start = offset;
        Ok(Conversation::of_table(file, path, table))
    }

    fn of_table(file: File, path: &Path, mut table: Table) -> Conversation {
        if is_agent(path) {
            table.unmark_sides();
        }
        Conversation {
            path: path.to_owned(),
            file: Some(file),
            windows: Mutex::default(),
            table,
            graph: Graph::default(),
            pairs: Pairs::default(),
            rules: Rules::newest(),
            leaf: OnceLock::new(),
        }
    }

    /// Closes the file; it is opened again for each access. There may be more sub-agents than the
    /// process may have open files.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Calls `work` with the file.
    pub(crate) fn with_file<T>(
        &self,
        work: impl FnOnce(&File) -> crate::Result<T>,
    ) -> crate::Result<T> {
        let done = match &self.file {
            Some(file) => work(file),
            None => files::open(&self.path).map_err(Error::from).and_then(|file| work(&file)),
        };
        done.at(&self.path)
    }

    /// Passes one block to `see`; `None` if its record no longer has it.
    pub fn look_at<T>(
        &self,
        block: BlockId,
        see: impl FnOnce(Option<Block<'_>>) -> T,
    ) -> crate::Result<T> {
        let Some(range) = self.table.range(block) else {
            let place = self.table.place(block);
            return self.look(self.table.block(block).row, |entry| {
                see(entry.message().and_then(|message| message.blocks().nth(place)))
            });
        };
        let row = self.table.row(self.table.block(block).row);
        let see = |bytes: Option<&[u8]>| {
            bytes.map_or_else(|| Err(changed()), |bytes| see_block(bytes, |block| see(Some(block))))
        };
        let read = self.with_window(row.offset, |window| {
            self.with_file(|file| {
                if row.len > READ_BLOCK as u64 {
                    let offset = row.offset + range.start as u64;
                    return see(Some(&read_at(file, offset, range.len() as u64)?));
                }
                // Who looks at a block looks at its record next, or at the record behind it.
                see(window.get(file, row.offset, row.len)?.get(range))
            })
        });
        read.map_err(|error| error.at_line(row.line))
    }

    /// Passes the record of a row to `see`.
    pub fn look<T>(&self, row: RowId, see: impl FnOnce(&Entry<'_>) -> T) -> crate::Result<T> {
        self.with_window(self.table.row(row).offset, |window| self.look_by(window, row, see))
    }

    /// Takes the piece of the file that is nearest to an offset.
    fn with_window<T>(&self, offset: u64, read: impl FnOnce(&mut Window) -> T) -> T {
        // Others may read meanwhile: only the list of windows is locked, not the one in use.
        let mut window = {
            let mut free = lock(&self.windows);
            let near = free.iter().position(|window| window.is_near(offset));
            let at = near.or_else(|| free.len().checked_sub(1));
            at.map(|at| free.swap_remove(at)).unwrap_or_default()
        };
        let seen = read(&mut window);
        let mut free = lock(&self.windows);
        if free.len() < WINDOWS {
            free.push(window);
        }
        seen
    }

    fn look_by<T>(
        &self,
        window: &mut Window,
        row: RowId,
        see: impl FnOnce(&Entry<'_>) -> T,
    ) -> crate::Result<T> {
        let known = self.table.row(row);
        let read = self.with_file(|file| {
            if known.is_long() {
                return self.table.look(file, row, see);
            }
            Table::see(&window.get(file, known.offset, known.len)?, see)
        });
        read.map_err(|error| error.at_line(known.line))
    }

    /// The records of these rows, in their order. Several threads read them if there are many.
    pub(crate) fn look_all<T: Send>(
        &self,
        rows: &[RowId],
        see: impl Fn(&mut Look<'_>, RowId) -> crate::Result<T> + Sync,
    ) -> crate::Result<Vec<T>> {
        let mut all = Vec::with_capacity(rows.len());
        self.look_each(rows, see, |_, seen| all.push(seen))?;
        Ok(all)
    }

    /// Passes what `see` makes of these rows to `take`, in their order, while others are read: so
    /// what it makes of all of them need not be in memory at once.
    pub(crate) fn look_each<T: Send>(
        &self,
        rows: &[RowId],
        see: impl Fn(&mut Look<'_>, RowId) -> crate::Result<T> + Sync,
        mut take: impl FnMut(RowId, T),
    ) -> crate::Result<()> {
        let pieces: Vec<_> = rows.chunks(FEW).collect();
        let read = |at: usize| {
            let mut look = Look { conversation: self, window: Window::default() };
            pieces[at].iter().map(|row| see(&mut look, *row)).collect::<crate::Result<Vec<T>>>()
        };
        threads::in_order_within(WAITING, pieces.len(), threads::count(), read, |at, seen| {
            for (row, seen) in pieces[at].iter().zip(seen?) {
                take(*row, seen);
            }
            Ok(())
        })
    }

    /// The rows of these chains, one chain after the other.
    pub fn rows<'a>(&'a self, chains: &'a [ChainId]) -> impl Iterator<Item = RowId> + 'a {
        chains.iter().flat_map(|chain| self.graph.rows(*chain)).copied()
    }

    /// The turns in these chains, each of which continues the one before it.
    pub fn turns_in(&self, chains: &[ChainId]) -> Vec<Turn> {
        Builder::new(&self.table, &self.pairs).turns(None, self.rows(chains))
    }

    /// All turns, each chain once.
    pub fn turns(&self) -> Turns {
        let mut builder = Builder::new(&self.table, &self.pairs);
        let live = self.live();
        let mut is_live = vec![false; self.graph.chains().len()];
        for chain in &live {
            is_live[chain.index()] = true;
        }
        let mut turns = Turns {
            live: builder.turns(None, self.rows(&live)),
            dead: Vec::new(),
            side: Vec::new(),
            consumed: 0,
        };
        for (id, chain) in self.graph.numbered() {
            if !is_live[id.index()] {
                let found = builder.turns(chain.start.after(), self.graph.rows(id).iter().copied());
                let of = if chain.is_sidechain { &mut turns.side } else { &mut turns.dead };
                if !found.is_empty() {
                    of.push((id, found));
                }
            }
        }
        turns.consumed = self.consumed(&turns.live);
        turns
    }

    /// The line up to which all turns are complete. Turns still open at the end are left for next
    /// time.
    fn consumed(&self, turns: &[Turn]) -> u64 {
        let waiting = turns.iter().rev().take_while(|turn| !turn.outcome.is_complete());
        let line = |row: RowId| self.table.row(row).line;
        let open = waiting.map(|turn| line(turn.rows[0])).min();
        let done = turns.iter().filter(|turn| turn.outcome.is_complete());
        let done = done.map(|turn| line(turn.rows[1])).max().unwrap_or(0);
        open.map_or(done, |open| done.min(open - 1))
    }
}
