//! What is pasted: short texts as they are, long ones and images as marks.
//!
//! Invariant: a mark means what was pasted into the same prompt under its number, which nothing
//! else in it has; a text that only looks like a mark is just text.

use std::sync::Arc;

use super::Composer;

/// A paste of more lines than this is shown as a mark.
const LINES: usize = 3;
/// And one of more characters.
const CHARACTERS: usize = 800;

/// Something that was pasted, and its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pasted {
    /// Its number in the prompt.
    pub number: usize,
    /// What stands in the text.
    pub mark: String,
    /// What it is.
    pub content: Content,
}

/// What was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// An image.
    Image(Image),
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its media type.
    pub media: String,
    /// The bytes, in base64.
    pub data: String,
}

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// As it was typed, with marks.
    pub display: String,
    /// With the texts in the places of their marks.
    pub text: String,
    /// What was pasted and is still in the text.
    pub pasted: Vec<Pasted>,
}

impl Prompt {
    /// A prompt without anything pasted.
    pub fn typed(text: &str) -> Prompt {
        Prompt { display: text.to_owned(), text: text.to_owned(), pasted: Vec::new() }
    }

    /// The text without the marks of its images.
    pub fn without_images(&self) -> String {
        let is_image = |one: &&Pasted| matches!(one.content, Content::Image(_));
        let images = self.pasted.iter().filter(is_image);
        images.fold(self.text.clone(), |text, image| text.replacen(&image.mark, "", 1))
    }

    /// The images of it, in order.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.pasted.iter().filter_map(|one| match &one.content {
            Content::Image(image) => Some(image),
            Content::Text(_) => None,
        })
    }
}

impl Composer {
    /// Takes a pasted text. Long ones become a mark.
    pub fn paste(&mut self, pasted: &str) {
        let pasted = pasted.replace("\r\n", "\n").replace('\r', "\n");
        let lines = pasted.matches('\n').count();
        if lines < LINES && pasted.chars().count() <= CHARACTERS {
            self.keep();
            self.insert(&pasted);
            self.is_typing = false;
            return;
        }
        let number = self.next_number();
        let mark = match lines {
            0 => format!("[Pasted text #{number}]"),
            lines => format!("[Pasted text #{number} +{lines} lines]"),
        };
        self.add(Pasted { number, mark, content: Content::Text(pasted) });
    }

    /// Takes an image.
    pub fn paste_image(&mut self, image: Image) {
        let number = self.next_number();
        let mark = format!("[Image #{number}]");
        self.add(Pasted { number, mark, content: Content::Image(image) });
    }

    fn next_number(&self) -> usize {
        self.pasted.iter().map(|one| one.number).max().unwrap_or(0) + 1
    }

    fn add(&mut self, one: Pasted) {
        self.insert(&one.mark);
        self.pasted.push(Arc::new(one));
        self.is_typing = false;
    }

    /// What would be sent.
    pub fn prompt(&self) -> Prompt {
        let mut text = self.text.clone();
        let is_in = |one: &&Arc<Pasted>| text.contains(&one.mark);
        let pasted: Vec<Pasted> =
            self.pasted.iter().filter(is_in).map(|one| Pasted::clone(one)).collect();
        for one in &pasted {
            if let Content::Text(content) = &one.content {
                text = text.replacen(&one.mark, content, 1);
            }
        }
        Prompt { display: self.text.clone(), text, pasted }
    }

    /// Whether something that was pasted is still in the text.
    pub fn has_pasted(&self) -> bool {
        self.pasted.iter().any(|one| self.text.contains(&one.mark))
    }

    /// Takes a prompt back for editing, before what is written. What was pasted into it gets
    /// another number if something here has its number.
    pub fn take_back(&mut self, prompt: Prompt) {
        let mut display = prompt.display;
        let mut pasted = if self.text.is_empty() { Vec::new() } else { self.pasted.clone() };
        let numbers = pasted.iter().map(|one| one.number);
        let highest = numbers.chain(prompt.pasted.iter().map(|one| one.number)).max();
        let mut free = highest.unwrap_or(0) + 1;
        for mut one in prompt.pasted {
            if pasted.iter().any(|known| known.number == one.number) {
                let (old, new) = (format!("#{}", one.number), format!("#{free}"));
                let mark = one.mark.replacen(&old, &new, 1);
                display = display.replacen(&one.mark, &mark, 1);
                (one.number, one.mark) = (free, mark);
                free += 1;
            }
            pasted.push(Arc::new(one));
        }
        pasted.sort_by_key(|one| one.number);
        let text = if self.text.is_empty() { display } else { format!("{display}\n{}", self.text) };
        self.set(&text);
        self.pasted = pasted;
    }

    /// The start of a mark that ends here.
    pub(super) fn mark_ending(&self, at: usize) -> Option<usize> {
        let before = &self.text[..at];
        let mark = self.pasted.iter().find(|one| before.ends_with(&one.mark))?;
        Some(at - mark.mark.len())
    }

    /// The end of a mark that starts here.
    pub(super) fn mark_starting(&self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        let mark = self.pasted.iter().find(|one| rest.starts_with(&one.mark))?;
        Some(at + mark.mark.len())
    }
}
