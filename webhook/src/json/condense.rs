//! Keeping of a text that arrives in pieces only what anybody asks for.
//!
//! A large object is large by its annotations and its managedFields, and of those nothing is read here. What they say is
//! dropped as it arrives: it is neither put together nor looked at a second time, and a caller cannot fill the memory with it.

use memchr::memmem;

use super::skip::Scan;

/// The beginnings of what is emptied. Within a string the quotation marks would be escaped, so each is the end of a member's
/// name at least, of whatever object: nobody looks into a member of such a name.
const FILLERS: [(&[u8], u8); 2] = [(b"\"annotations\":{", b'}'), (b"\"managedFields\":[", b']')];

/// So many are emptied: both kinds of two objects. Beyond that somebody tries to keep us busy.
const MAX_EMPTIED: u8 = 4;

/// A text of which the fillers are empty.
#[derive(Debug, Default)]
pub struct Condensed {
    kept: Vec<u8>,
    emptied: u8,
    within: Option<Filler>,
}

/// A filler whose end has not come yet.
#[derive(Debug)]
struct Filler {
    scan: Scan,
    closing: u8,
}

impl Condensed {
    /// Takes the next piece of the text.
    pub fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let taken = match &mut self.within {
                Some(filler) => match filler.scan.end(piece) {
                    Some(end) => {
                        self.kept.push(filler.closing);
                        self.within = None;
                        end
                    }
                    None => piece.len(),
                },
                None => self.keep(piece),
            };
            piece = &piece[taken..];
        }
    }

    /// Keeps the piece up to the beginning of a filler, and says how much that is.
    fn keep(&mut self, piece: &[u8]) -> usize {
        let next = if self.emptied < MAX_EMPTIED { self.next_filler(piece) } else { None };
        let (taken, closing) = next.map_or((piece.len(), None), |(taken, closing)| (taken, Some(closing)));
        self.kept.extend_from_slice(&piece[..taken]);
        if let Some(closing) = closing {
            self.emptied += 1;
            self.within = Some(Filler { scan: Scan::opened(), closing });
        }
        taken
    }

    /// How much of the piece comes before the content of the next filler, and what will close that.
    fn next_filler(&self, piece: &[u8]) -> Option<(usize, u8)> {
        let begin = |(name, closing): (&[u8], u8)| {
            let begun = (1..name.len()).find(|begun| {
                let (earlier, here) = name.split_at(*begun);
                self.kept.ends_with(earlier) && piece.starts_with(here)
            });
            let straddling = begun.map(|begun| name.len() - begun);
            let end = straddling.or_else(|| memmem::find(piece, name).map(|at| at + name.len()))?;
            Some((end, closing))
        };
        FILLERS.into_iter().filter_map(begin).min()
    }

    /// How many bytes were kept so far.
    #[must_use]
    pub fn size(&self) -> usize {
        self.kept.len()
    }

    /// The text. Where it was cut off within a filler, that is not closed.
    #[must_use]
    pub fn into_text(self) -> Vec<u8> {
        self.kept
    }
}
