# shellcheck shell=bash
# network.sh: the closed network of up.sh -m netns: one bridge, and a network namespace with its own address per node.
#
# Everything is named after the bridge, so that clusters side by side never meet: namespaces BRIDGE-NODE, and BRIDGE-I for
# the host's end of node I's cable. What was made is written down first-hand: $BASE/bridge and $BASE/netns are what
# remove_network goes by. Expects BASE and node_name, node_addr of config.sh; sourced, never run.

netns_of() { echo "$BRIDGE-$1"; }

is_our_bridge() { [ "$(cat "/sys/class/net/$1/ifalias" 2>/dev/null)" = "$BASE" ]; }

is_free_net() { [ -z "$(ip -o route show root "$1.0.0/16")" ]; }

claim_bridge() { # makes the bridge; its creation is what reserves the name, for only one of two can succeed
  ip link add "$1" type bridge 2>/dev/null || return 1
  ip link set "$1" alias "$BASE"
  echo "$1" > "$BASE/bridge"
}

claim_free_bridge() { # sets BRIDGE and NET to the first pair that neither another cluster nor the host's routes use
  local i
  for i in $(seq 0 99); do
    NET=10.$((100 + i)) BRIDGE=rg$i
    is_free_net "$NET" && claim_bridge "$BRIDGE" && return 0
  done
  fail "no free bridge among rg0..rg99"
}

make_bridge() { # sets BRIDGE and NET, to what was asked for, to those of the last run, or to free ones
  if [ -s "$BASE/net" ]; then
    BRIDGE=$(< "$BASE/bridge") NET=$(< "$BASE/net")
    is_our_bridge "$BRIDGE" || fail "the bridge $BRIDGE of the last run is gone: down.sh first"
    return 0
  elif [ -z "$BRIDGE" ]; then
    claim_free_bridge
  else
    is_free_net "$NET" || fail "the network $NET.0.0/16 is in use: give another with -N"
    claim_bridge "$BRIDGE" || fail "cannot make the bridge $BRIDGE: is it another cluster's?"
  fi
  ip addr replace "$NET.0.1/16" dev "$BRIDGE"
  ip link set "$BRIDGE" up
  echo "$NET" > "$BASE/net"
}

make_node_net() { # make_node_net I
  local ns cable=$BRIDGE-$1; ns=$(netns_of "$(node_name "$1")")
  [ ! -e "/run/netns/$ns" ] || return 0
  echo "$ns" >> "$BASE/netns"
  ip netns add "$ns"
  # no IPv6 on the nodes: Dynamo 1.2.1 takes the first address of the interface it is told, and cannot listen on fe80::
  # shellcheck disable=SC2016
  nsenter --net="/run/netns/$ns" sh -c 'for d in all default; do echo 1 > /proc/sys/net/ipv6/conf/$d/disable_ipv6; done'
  ip link add "$cable" master "$BRIDGE" up type veth peer name eth0 netns "$ns"
  printf 'link set lo up\naddr add %s/16 dev eth0\nlink set eth0 up\n' "$(node_addr "$1")" | ip -n "$ns" -batch -
}

make_network() { local i; make_bridge; for i in $(seq 1 "$NODES"); do make_node_net "$i"; done; }

remove_network() {
  local bridge port ns
  if [ -s "$BASE/bridge" ] && bridge=$(< "$BASE/bridge") && is_our_bridge "$bridge"; then
    # the cables first: with their namespaces they would go only some time later
    for port in "/sys/class/net/$bridge/brif"/*; do [ ! -e "$port" ] || echo "link del $(basename "$port")"; done | ip -force -batch - 2>/dev/null
    ip link del "$bridge" 2>/dev/null
  fi
  if [ -s "$BASE/netns" ]; then while read -r ns; do ip netns del "$ns" 2>/dev/null; done < "$BASE/netns"; fi
  rm -f "$BASE/bridge" "$BASE/net" "$BASE/netns"
}
