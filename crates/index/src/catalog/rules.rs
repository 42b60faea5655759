//! The rules for secrets that the catalog was made with. When they change, all files are read
//! again, and what the old rules let through is removed from the catalog's file, not only from the
//! answers.

use std::fmt::Write;

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use transcript::format::secret::{Mask, Redactor, kinds};

use super::schema::SPAN;
use super::{Catalog, CatalogError, lock, store};

/// The rules that everything was masked by.
const RULES: &str = "rules";
/// There are removed words that were not overwritten yet.
const REMAINS: &str = "remains";

/// What names rules: the debug form of a redactor has all patterns and values of the user.
fn name_of(redactor: &Redactor) -> String {
    let hash = Sha256::digest(format!("{redactor:?} {:?}", kinds()));
    hash[..16].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Marks that removed words are still in the file.
pub(super) const LEAVES_REMAINS: &str = "INSERT OR REPLACE INTO setting VALUES ('remains', '')";

fn setting(db: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT value FROM setting WHERE name = ?")?
        .query_row([name], |row| row.get(0))
        .optional()
}

impl Catalog {
    /// Makes the next plan read everything if other rules hide secrets now.
    pub(super) fn follow(&self, redactor: &Redactor) -> Result<(), CatalogError> {
        let (db, name) = (&self.connection, name_of(redactor));
        let is_same = || -> rusqlite::Result<bool> {
            Ok(setting(db, RULES)?.as_deref() == Some(name.as_str()))
        };
        if is_same().map_err(|error| self.sql(error))? {
            return Ok(());
        }
        let _lock = lock(self.path())?;
        let change = || -> rusqlite::Result<()> {
            db.execute_batch("BEGIN IMMEDIATE")?;
            if !is_same()? {
                mask_rows(db, redactor)?;
                db.execute_batch(super::FORGET_CONTENTS)?;
                if db.prepare("SELECT 1 FROM file")?.exists([])? {
                    db.execute_batch(LEAVES_REMAINS)?;
                }
                let write = "INSERT OR REPLACE INTO setting VALUES (?, ?)";
                db.execute(write, [RULES, name.as_str()])?;
            }
            db.execute_batch("COMMIT")
        };
        change().map_err(|error| {
            // The first error says what is wrong.
            let _ = db.execute_batch("ROLLBACK");
            self.sql(error)
        })
    }

    /// Overwrites what was removed, if something was since the last time. If others are reading,
    /// the next refresh does it.
    pub(super) fn sweep(&self) -> rusqlite::Result<()> {
        let db = &self.connection;
        if setting(db, REMAINS)?.is_some() && overwrite(db).unwrap_or(false) {
            db.execute("DELETE FROM setting WHERE name = ?", [REMAINS])?;
        }
        Ok(())
    }
}

/// Leaves nothing in the file of what was removed: words of removed texts stay until the index is
/// merged, and what was moved or removed stays in free pages. Returns whether that was possible:
/// what a reader still looks at cannot be overwritten.
fn overwrite(db: &Connection) -> rusqlite::Result<bool> {
    db.execute_batch("INSERT INTO text (text) VALUES ('optimize'); VACUUM;")?;
    let is_blocked: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(!is_blocked)
}

/// Hides secrets in what stays of files that are gone, or may be when they are to be read again.
fn mask_rows(db: &Connection, redactor: &Redactor) -> rusqlite::Result<()> {
    let mut mask = Mask::new(redactor);
    let mut select = db.prepare("SELECT number, title, prompt, branch, cwd FROM file")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let mut texts: [Option<String>; 4] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        let mut is_changed = false;
        for text in texts.iter_mut().flatten() {
            let hidden = mask.text(text).into_owned();
            is_changed |= hidden != *text;
            *text = hidden;
        }
        if is_changed {
            let [title, prompt, branch, cwd] = texts;
            db.prepare_cached(
                "UPDATE file SET title = ?2, prompt = ?3, branch = ?4, cwd = ?5 WHERE number = ?1",
            )?
            .execute(params![number, title, prompt, branch, cwd])?;
        }
    }
    let mut gone = db.prepare("SELECT number, is_agent FROM file WHERE is_deleted")?;
    let mut rows = gone.query([])?;
    while let Some(row) = rows.next()? {
        let (number, is_agent): (i64, bool) = (row.get(0)?, row.get(1)?);
        if !is_agent {
            let first = number * SPAN;
            db.prepare_cached("DELETE FROM text WHERE rowid BETWEEN ? AND ?")?
                .execute([first, first + SPAN - 1])?;
            store::add_title(db, number)?;
        }
    }
    mask_touched(db, &mut mask)
}

/// Hides secrets in the names of files that calls touched.
fn mask_touched(db: &Connection, mask: &mut Mask<'_>) -> rusqlite::Result<()> {
    let mut changed: Vec<(i64, String, String)> = Vec::new();
    let mut select = db.prepare(
        "SELECT DISTINCT file, touched.path FROM touched JOIN file ON number = file \
         WHERE is_deleted",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (file, path): (i64, String) = (row.get(0)?, row.get(1)?);
        let hidden = mask.text(&path).into_owned();
        if hidden != path {
            changed.push((file, path, hidden));
        }
    }
    for (file, path, hidden) in changed {
        db.prepare_cached("UPDATE OR REPLACE touched SET path = ?3 WHERE file = ?1 AND path = ?2")?
            .execute(params![file, path, hidden])?;
    }
    Ok(())
}
