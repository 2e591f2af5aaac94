//! Fast path for objects that are flat and plain, as most lines are: no escapes, nothing nested, no errors. It
//! reports no errors: if an object is not plain, the caller parses it again from the beginning on the slow path.

/// Visits the keys and values of an object. Calls `found` with each key and the range of its value. Returns `None`
/// at the first token that is not plain, or if `found` does.
pub(crate) fn walk(line: &[u8], mut found: impl FnMut(&[u8], (usize, usize)) -> Option<()>) -> Option<()> {
    let mut at = expect(line, space(line, 0), b'{')?;
    at = space(line, at);
    if line.get(at) == Some(&b'}') {
        return is_end(line, at + 1);
    }
    loop {
        let key = at + 1;
        at = string(line, at)?;
        let name = &line[key..at - 1];
        at = expect(line, space(line, at), b':')?;
        let start = space(line, at);
        at = value(line, start)?;
        found(name, (start, at))?;
        at = space(line, at);
        match line.get(at)? {
            b',' => at = space(line, at + 1),
            b'}' => return is_end(line, at + 1),
            _ => return None,
        }
    }
}

fn is_end(line: &[u8], at: usize) -> Option<()> {
    (space(line, at) == line.len()).then_some(())
}

fn expect(line: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*line.get(at)? == byte).then_some(at + 1)
}

fn space(line: &[u8], mut at: usize) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// End of the value that begins at `at`.
fn value(line: &[u8], at: usize) -> Option<usize> {
    let word = |word: &[u8]| line[at..].starts_with(word).then_some(at + word.len());
    match line.get(at)? {
        b'"' => string(line, at),
        b't' => word(b"true"),
        b'f' => word(b"false"),
        b'n' => word(b"null"),
        _ => number(line, at),
    }
}

/// The bytes of a string that end it, begin an escape or are invalid.
const IS_SPECIAL: [bool; 256] = {
    let mut is_special = [false; 256];
    let mut byte = 0;
    while byte < b' ' as usize {
        is_special[byte] = true;
        byte += 1;
    }
    is_special[b'"' as usize] = true;
    is_special[b'\\' as usize] = true;
    is_special
};

fn string(line: &[u8], at: usize) -> Option<usize> {
    let start = expect(line, at, b'"')?;
    let length = line[start..].iter().position(|byte| IS_SPECIAL[usize::from(*byte)])?;
    expect(line, start + length, b'"')
}

fn number(line: &[u8], mut at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let count = line[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(from + count)
    };
    if line.get(at) == Some(&b'-') {
        at += 1;
    }
    let start = at;
    at = digits(at)?;
    if line[start] == b'0' && at > start + 1 {
        return None;
    }
    if line.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(line.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(line.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}
