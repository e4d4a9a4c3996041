#!/usr/bin/env bash
# Runs `egret bench` between two network namespaces whose link loses packets, each way, and takes
# them away again, also when it is interrupted. Needs root, ip and nft.
#
#   benches/loss.sh [PERCENT [EGRET [ARGUMENTS OF egret bench]]]
#
#   benches/loss.sh 1 target/release/egret bandwidth --fabric udp --sizes 64K
#
# PERCENT may have one digit after the point; 0 is a link that loses nothing. EGRET is the program,
# or target/release/egret. Without arguments: 64 KiB messages over udp, and what udp-datagrams loses.
set -euo pipefail

percent=${1:-1}
egret=${2:-$(dirname "$0")/../target/release/egret}
shift $(($# < 2 ? $# : 2))

a=egret-loss-$$-a
b=egret-loss-$$-b
link=egret

case $percent in
    *[!0-9.]* | *.*.* | *.??* | '') echo "loss.sh: $percent is no percentage" >&2; exit 2 ;;
esac
# Of a thousand packets.
lost=$(printf '%.0f' "${percent}e1")

clean() {
    ip netns delete "$a" 2>/dev/null || :
    ip netns delete "$b" 2>/dev/null || :
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add "$link" type veth peer name "$link" netns "$b"
up() {
    ip -n "$1" address add "$2/24" dev "$link"
    ip -n "$1" link set lo up
    # What the system sends as one large packet and cuts later would be lost as one.
    ip -n "$1" link set "$link" gso_max_segs 1 up
    if [ "$lost" -gt 0 ]; then
        ip netns exec "$1" nft -f - <<RULES
table inet loss {
    chain in {
        type filter hook input priority 0;
        meta l4proto udp numgen random mod 1000 < $lost counter drop
    }
}
RULES
    fi
}
up "$a" 10.213.8.1
up "$b" 10.213.8.2
# The system takes a moment to find that both ends are up.
for _ in $(seq 100); do
    [ "$(for s in "$a" "$b"; do ip -n "$s" link show "$link"; done | grep -c 'state UP')" -eq 2 ] && break
    sleep 0.05
done

bench() { "$egret" bench "$@" --spaces "$a,$b"; }

if [ $# -gt 0 ]; then
    bench "$@"
else
    bench bandwidth --fabric udp --sizes 64K
    bench latency --fabric udp --sizes 4,1K
    bench bandwidth --fabric udp-datagrams --sizes 1K,64K
    bench latency --fabric udp-datagrams --sizes 4,1K
fi

if [ "$lost" -gt 0 ]; then
    for space in "$a" "$b"; do
        counted=$(ip netns exec "$space" nft list chain inet loss in | grep -o 'counter packets [0-9]*')
        echo "# ${counted##* } packets lost on the way to $space"
    done
fi
