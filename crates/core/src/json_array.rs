//! The elements of a JSON array as text, as they stand there.

/// What is between the brackets of a JSON array.
pub fn inside_array(array: &str) -> &str {
    let array = array.trim();
    array.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(array)
}

/// Splits off the text of the first element of what is between the brackets.
pub fn next_element<'a>(rest: &mut &'a str) -> Option<&'a str> {
    if rest.is_empty() {
        return None;
    }
    let (mut depth, mut is_text, mut is_escaped) = (0_u32, false, false);
    let end = rest.bytes().position(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => return depth == 0,
            _ => {}
        }
        false
    });
    let (value, next) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (*rest, ""),
    };
    *rest = next;
    Some(value.trim())
}
