//! Finding the end of a JSON value without reading it.
//!
//! An object or a list ends where its brackets are balanced, not counting those within strings. That is found out for 64
//! bytes at a time: each question about them has its answers in the bits of one number, of which the lowest is about the
//! first byte.

use wide::{u8x16, u8x64};

/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// How many bytes come before the first one that ends a string or has no place in it as it is: a quotation mark, a backslash or
/// a control character.
pub(super) fn plain(text: &[u8]) -> usize {
    let (blocks, rest) = text.as_chunks();
    for (number, block) in blocks.iter().enumerate() {
        let bytes = u8x16::from(*block);
        let equal = |byte| bytes.simd_eq(u8x16::splat(byte));
        let special = equal(b'"') | equal(b'\\') | bytes.simd_lt(u8x16::splat(b' '));
        let special = special.to_bitmask();
        if special != 0 {
            return number * block.len() + special.trailing_zeros() as usize;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    text.len() - rest.len() + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Length of the string that `text` begins with, quotation marks included; none where it is not closed.
pub(super) fn string(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        // Whatever stands behind a backslash does not close the string.
        at += 2;
    }
}

/// Length of the object or list that `text` begins with, brackets included; none where it is not closed.
pub(super) fn container(text: &[u8]) -> Option<usize> {
    let (_opening, inner) = text.split_first()?;
    Scan::opened().end(inner).map(|end| end + 1)
}

/// The search for where an object or a list ends, which may go on from one piece of text to the next.
#[derive(Debug)]
pub(super) struct Scan {
    /// Brackets that are open, the outermost included.
    depth: u32,
    /// All bits set while a string is open, otherwise none.
    in_string: u64,
    /// 1 where the first byte of the next block is escaped, otherwise 0.
    escaped: u64,
}

impl Scan {
    /// Begins behind the opening bracket.
    pub(super) fn opened() -> Self {
        Self { depth: 1, in_string: 0, escaped: 0 }
    }

    /// How much of the next piece of text comes before the end, the closing bracket included; none where it does not end.
    pub(super) fn end(&mut self, text: &[u8]) -> Option<usize> {
        let (blocks, rest) = text.as_chunks();
        for (number, block) in blocks.iter().enumerate() {
            if let Some(end) = self.end_within(block) {
                return Some(number * BLOCK + end);
            }
        }
        if rest.is_empty() {
            return None;
        }
        // At the end of a block, so that what is remembered is about its last byte.
        let mut last = [b' '; BLOCK];
        let (padding, bytes) = last.split_at_mut(BLOCK - rest.len());
        bytes.copy_from_slice(rest);
        if std::mem::take(&mut self.escaped) == 1 {
            bytes[0] = b' ';
        }
        let padding = padding.len();
        self.end_within(&last).map(|end| blocks.len() * BLOCK + end - padding)
    }

    /// Length of what the outermost bracket ends, within this block.
    fn end_within(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let bytes = u8x64::from(*block);
        let equal = |byte| bytes.simd_eq(u8x64::splat(byte)).to_bitmask();
        let strings = self.strings(equal(b'"'), equal(b'\\'));
        // Square and curly brackets differ in this bit alone.
        let folded = bytes | u8x64::splat(b'[' ^ b'{');
        let brackets = |byte| folded.simd_eq(u8x64::splat(byte)).to_bitmask() & !strings;
        let (opening, closing) = (brackets(b'{'), brackets(b'}'));
        // A bracket that is closed at once leaves the depth as it was. In managedFields hardly any is left then.
        let pairs = opening & (closing >> 1);
        self.end_among(opening ^ pairs, closing ^ (pairs << 1))
    }

    fn end_among(&mut self, opening: u64, mut closing: u64) -> Option<usize> {
        if opening | closing == 0 {
            return None;
        }
        if closing.count_ones() < self.depth {
            self.depth += opening.count_ones();
            self.depth -= closing.count_ones();
            return None;
        }
        // It may be one of these, and is found out one by one.
        let mut left = opening;
        while closing != 0 {
            let at = closing.trailing_zeros();
            let behind = u64::MAX << at;
            self.depth += (left & !behind).count_ones();
            self.depth -= 1;
            if self.depth == 0 {
                return Some(at as usize + 1);
            }
            left &= behind;
            closing &= closing - 1;
        }
        self.depth += left.count_ones();
        None
    }

    /// The bytes within strings, with the opening and without the closing quotation mark.
    fn strings(&mut self, quotes: u64, backslashes: u64) -> u64 {
        let quotes = quotes & !self.escaped(backslashes);
        let strings = parity(quotes) ^ self.in_string;
        // The sign bit, which is about the last byte, in all places.
        self.in_string = (strings.cast_signed() >> (u64::BITS - 1)).cast_unsigned();
        strings
    }

    /// The bytes that a backslash takes their meaning from.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let first = std::mem::take(&mut self.escaped);
        if backslashes & (backslashes << 1 | first) == 0 {
            self.escaped = backslashes >> (u64::BITS - 1);
            return backslashes << 1 | first;
        }
        // A backslash behind another one may be escaped itself, which is found out one by one.
        let mut escaped = first;
        let mut left = backslashes & !first;
        while left != 0 {
            let next = (left & left.wrapping_neg()) << 1;
            escaped |= next;
            self.escaped = u64::from(next == 0);
            left &= left - 1;
            left &= !next;
        }
        escaped
    }
}

/// For each bit, whether up to it, itself included, an odd number of bits is set.
fn parity(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}
