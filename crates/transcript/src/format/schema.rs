//! The format, as far as it is known, as data.
//!
//! `schema.txt` lists every object of the format with its members, the version that first had each,
//! and what its value contains. `docs/format.md` is generated from it, and
//! [`drift`](crate::format::drift) looks things up in it, so that they cannot disagree. Nothing
//! else in the crate uses it: reading does not depend on what is known.

use std::collections::HashMap;
use std::sync::OnceLock;

/// One kind of object and its members.
#[derive(Debug)]
pub struct Place {
    /// Its name: the type of a record, `block.text`, `attachment.file`, or a name made up for the
    /// schema.
    pub name: &'static str,
    /// The name of a place whose members are members of this one too.
    pub base: Option<&'static str>,
    /// A remark about it, for `docs/format.md`.
    pub note: &'static str,
    /// Its own members.
    pub fields: Vec<Field>,
}

/// One member of an object.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The first client version that had it, or the only dialect that has it, or `hearsay` if it is
    /// known from other sources only.
    pub first: &'static str,
    /// What its value contains, in the notation of `schema.txt`.
    pub into: &'static str,
    /// What it means.
    pub note: &'static str,
}

/// All places, in the order of `schema.txt`.
pub fn places() -> &'static [Place] {
    &table().0
}

/// The place of that name.
pub fn place(name: &str) -> Option<&'static Place> {
    let (places, by_name) = table();
    by_name.get(name).map(|index| &places[*index])
}

impl Place {
    /// The member of that name, of the place itself or of its base.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let place = place(self.name)?;
        let field = place.fields.iter().find(|field| field.name == name);
        field.or_else(|| crate::format::schema::place(place.base?)?.field(name))
    }
}

type Table = (Vec<Place>, HashMap<&'static str, usize>);

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let places = parse(include_str!("schema.txt"));
        let by_name = places.iter().enumerate().map(|(index, place)| (place.name, index)).collect();
        (places, by_name)
    })
}

fn parse(text: &'static str) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("@ ") {
            let (name, base) = head.split_once(" : ").map_or((head, None), |(n, b)| (n, Some(b)));
            places.push(Place { name, base, note: "", fields: Vec::new() });
        } else if let Some(place) = places.last_mut() {
            if let Some(note) = line.strip_prefix("# ") {
                place.note = note;
            } else if !line.is_empty() {
                let mut columns = line.splitn(4, '|').map(str::trim);
                let mut column = || columns.next().unwrap_or_default();
                let (name, first, into, note) = (column(), column(), column(), column());
                place.fields.push(Field { name, first, into, note });
            }
        }
    }
    places
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
