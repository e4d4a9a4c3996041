//! Lists of machines as Slurm writes them.

/// The machines of `a[1-3,07]-x,b`; `None` if that is no list, or one of too many machines.
#[doc(hidden)]
#[must_use]
pub fn expand_node_list(list: &str) -> Option<Vec<String>> {
    let (mut hosts, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let (mut depth, mut end) = (0_usize, rest.len());
        for (at, sign) in rest.char_indices() {
            match sign {
                '[' => depth += 1,
                ']' => depth = depth.checked_sub(1)?,
                ',' if depth == 0 => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        hosts.extend(expand_one(&rest[..end])?);
        if hosts.len() > HOSTS_MAX {
            return None;
        }
        rest = rest[end..].strip_prefix(',').unwrap_or_default();
    }
    Some(hosts)
}

fn expand_one(name: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = name.split_once('[') else {
        return (!name.is_empty() && !name.contains(']')).then(|| vec![name.to_owned()]);
    };
    let (numbers, after) = rest.split_once(']')?;
    let after = if after.is_empty() { vec![String::new()] } else { expand_one(after)? };
    let mut hosts = Vec::new();
    for part in numbers.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if to < from || to - from >= HOSTS_MAX {
            return None;
        }
        let width = first.len();
        hosts
            .extend((from..=to).flat_map(|n| {
                after.iter().map(move |after| format!("{before}{n:0width$}{after}"))
            }));
    }
    Some(hosts)
}

/// Machines of one list.
const HOSTS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_in_their_order() {
        let expanded = |list| expand_node_list(list).unwrap().join(" ");
        assert_eq!(expanded("a"), "a");
        assert_eq!(expanded("n[1-3,07],m"), "n1 n2 n3 n07 m");
        assert_eq!(expanded("r[1-2]n[08-10]"), "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10");
        for list in ["a[", "a[1-", "a]", "a[2-1]", "a[x]", "a[1-999999999]", "a,,b"] {
            assert_eq!(expand_node_list(list), None, "{list}");
        }
    }
}
