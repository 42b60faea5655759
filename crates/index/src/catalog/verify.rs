//! Compares a catalog with one that is made anew from the files.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Rows, params};

use super::refresh::Work;
use super::{Catalog, CatalogError, beside, root_of};

/// What a table must have, apart from the numbers of files.
const COMPARED: [(&str, &str); 3] = [
    (
        "file",
        "number, path, session, is_agent, size, read_to, lines, cwd, title, prompt, branch, \
         version, started, ended, records, prompts, forked_from, open_calls",
    ),
    ("messages", "file, count, list"),
    ("touched", "file, path, tool, calls"),
];

/// What the names of catalogs that others are compared with have before the id of their process.
const VERIFY: &str = ".verify-";

impl Catalog {
    /// Reads all files again and compares. What is wrong: the structure of the database, and files
    /// whose rows or words are others. Refresh it first; a file that changes meanwhile is left out.
    pub fn verify(
        &mut self,
        work: &Work<'_>,
        progress: impl FnMut(u64, u64),
    ) -> Result<Vec<String>, CatalogError> {
        let mut wrong = self.structure().map_err(|error| self.sql(error))?;
        remove_left(&self.path);
        let path = beside(&self.path, &format!("{VERIFY}{}", std::process::id()));
        let fresh = Fresh(path);
        fresh.remove();
        let mut other = Catalog::open(&fresh.0)?;
        other.follow(work.redactor)?;
        let roots: Vec<PathBuf> = work.homes.iter().map(root_of).collect();
        self.same_numbers(&other.connection, &roots).map_err(|error| self.sql(error))?;
        other.refresh(work, progress)?;
        drop(other);
        let compared = self.compare(&fresh.0, &roots).map_err(|error| self.sql(error))?;
        wrong.extend(compared);
        Ok(wrong)
    }

    pub(super) fn structure(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare("PRAGMA integrity_check(10)")?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        let lines: rusqlite::Result<Vec<String>> = lines.collect();
        let mut wrong: Vec<String> = lines?.into_iter().filter(|line| line != "ok").collect();
        let words = "INSERT INTO text (text) VALUES ('integrity-check')";
        if let Err(error) = self.connection.execute_batch(words) {
            wrong.push(format!("the index of words: {error}"));
        }
        Ok(wrong)
    }

    /// Gives files in another catalog the numbers that they have here.
    fn same_numbers(&self, other: &Connection, homes: &[PathBuf]) -> rusqlite::Result<()> {
        let mut insert = other.prepare(
            "INSERT INTO file (number, home, project, path, session, is_agent, size, modified, \
             inode, read_to, lines, tail) VALUES (?, ?, ?, ?, ?, ?, 0, -1, 0, 0, 0, x'')",
        )?;
        for home in homes {
            for file in self.files(std::slice::from_ref(home))? {
                insert.execute(params![
                    file.number,
                    home.to_string_lossy(),
                    file.project.to_string_lossy(),
                    file.path.to_string_lossy(),
                    file.session,
                    file.is_agent,
                ])?;
            }
        }
        Ok(())
    }

    fn compare(&self, fresh: &Path, homes: &[PathBuf]) -> rusqlite::Result<Vec<String>> {
        let db = &self.connection;
        db.execute("ATTACH ? AS fresh", [fresh.to_string_lossy()])?;
        let compared = self.compare_with(homes);
        db.execute_batch("DROP TABLE IF EXISTS temp.old_word; DROP TABLE IF EXISTS temp.new_word")?;
        db.execute_batch("DETACH fresh")?;
        compared
    }

    fn compare_with(&self, homes: &[PathBuf]) -> rusqlite::Result<Vec<String>> {
        let db = &self.connection;
        // Of deleted files there is nothing to compare, and those that changed meanwhile differ.
        let mut same: HashMap<i64, PathBuf> = HashMap::new();
        let mut is_same = db.prepare("SELECT 1 FROM fresh.file WHERE number = ? AND size = ?")?;
        for file in self.files(homes)?.into_iter().filter(|file| !file.is_deleted) {
            if is_same.exists(params![file.number, file.stamp.size.cast_signed()])? {
                same.insert(file.number, file.path);
            }
        }
        let mut wrong: BTreeSet<(i64, &str)> = BTreeSet::new();
        for (table, columns) in COMPARED {
            for [one, other] in [["main", "fresh"], ["fresh", "main"]] {
                let mut statement = db.prepare(&format!(
                    "SELECT {columns} FROM {one}.{table} EXCEPT \
                     SELECT {columns} FROM {other}.{table}"
                ))?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    wrong.insert((row.get(0)?, table));
                }
            }
        }
        db.execute_batch(
            "CREATE VIRTUAL TABLE temp.old_word USING fts5vocab(main, text, instance); \
             CREATE VIRTUAL TABLE temp.new_word USING fts5vocab(fresh, text, instance);",
        )?;
        let word = |table: &str| {
            db.prepare(&format!("SELECT term, doc, CASE col WHEN 'words' THEN 0 WHEN 'parts' THEN 1 ELSE 2 END, offset FROM {table}"))
        };
        let (mut old, mut new) = (word("temp.old_word")?, word("temp.new_word")?);
        compare_words(old.query([])?, new.query([])?, &mut wrong)?;
        let of_file = |(file, what): &(i64, &str)| {
            let what = match *what {
                "file" => "what is known of the file",
                "messages" => "messages of the API",
                "touched" => "files that were touched",
                _ => "words",
            };
            same.get(file).map(|path| format!("{}: {what}", path.display()))
        };
        Ok(wrong.iter().filter_map(of_file).collect())
    }
}

/// A place of a word, in the order of the index.
type Place = (String, i64, i64, i64);

fn compare_words(
    mut old: Rows<'_>,
    mut new: Rows<'_>,
    wrong: &mut BTreeSet<(i64, &str)>,
) -> rusqlite::Result<()> {
    let next = |rows: &mut Rows<'_>| -> rusqlite::Result<Option<Place>> {
        let row = rows.next()?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).transpose()
    };
    let (mut one, mut other) = (next(&mut old)?, next(&mut new)?);
    loop {
        let order = match (&one, &other) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.cmp(other),
        };
        let only = match order {
            Ordering::Less => &one,
            Ordering::Greater => &other,
            Ordering::Equal => &None,
        };
        if let Some((_, doc, ..)) = only {
            wrong.insert((doc / super::SPAN, "text"));
        }
        if order != Ordering::Greater {
            one = next(&mut old)?;
        }
        if order != Ordering::Less {
            other = next(&mut new)?;
        }
    }
}

/// Removes what processes left beside a catalog that were ended while they verified it.
pub(super) fn remove_left(path: &Path) {
    let start = beside(Path::new(path.file_name().unwrap_or_default()), VERIFY);
    let start = start.to_string_lossy();
    let folder = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in folder.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let rest = name.strip_prefix(&*start).unwrap_or_default();
        let process = rest.split(|c: char| !c.is_ascii_digit()).next();
        let process: Option<u32> = process.and_then(|number| number.parse().ok());
        if process.is_some_and(|process| !files::is_running(process)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A file that is removed at the end.
struct Fresh(PathBuf);

impl Fresh {
    fn remove(&self) {
        for end in ["-wal", "-shm", ".lock", ""] {
            let _ = fs::remove_file(beside(&self.0, end));
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.remove();
    }
}
