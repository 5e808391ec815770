#!/usr/bin/env bash
# namespaces.sh NODES RATE PROGRAM [ARGS...]   runs PROGRAM with one rank on each of NODES "nodes" of this machine: network
# namespaces with a host name and a /dev/shm of their own, joined by a bridge of RATE a second each (as tc says it: 1gbit,
# 100mbit; - for no limit). Needs root and iproute2. RANKS_PER_NODE=2 puts two ranks on a node. LINK_DOWN=S takes the
# last node's cable out after S seconds.
set -eu
nodes=$1 rate=$2; shift 2
tag=gpuhpc$$ net=10.77.$(($$ % 250))
short=gh$(($$ % 10000))  # interface names have 15 letters at most
work=$(mktemp -d)
clean() {
  for n in $(seq "$nodes"); do ip netns del "$tag-$n" 2>/dev/null || true; done
  ip link del "$short" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

ip link add "$short" type bridge
ip addr add "$net.254/24" dev "$short"
ip link set "$short" up
for n in $(seq "$nodes"); do
  ip netns add "$tag-$n"
  ip link add "$short-$n" type veth peer name eth0 netns "$tag-$n"
  ip link set "$short-$n" master "$short" up
  ip -n "$tag-$n" addr add "$net.$n/24" dev eth0
  ip -n "$tag-$n" link set eth0 up
  ip -n "$tag-$n" link set lo up
  if [ "$rate" != - ]; then  # both ways
    ip netns exec "$tag-$n" tc qdisc add dev eth0 root tbf rate "$rate" burst 512k latency 100ms
    tc qdisc add dev "$short-$n" root tbf rate "$rate" burst 512k latency 100ms
  fi
  echo "$net.$n slots=${RANKS_PER_NODE:-1}" >>"$work/hosts"
done
# mpirun starts its daemons through this instead of ssh.
cat >"$work/agent" <<AGENT
#!/usr/bin/env bash
node=\${1##*.}; shift
exec ip netns exec $tag-\$node unshare -u -m --propagation private bash -c \
  'hostname node'\$node'; mount -t tmpfs tmpfs /dev/shm; exec bash -c "\$1"' agent "\$*"
AGENT
chmod +x "$work/agent"
if [ -n "${LINK_DOWN:-}" ]; then (sleep "$LINK_DOWN"; ip link set "$short-$nodes" down) & fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mpirun -np $((nodes * ${RANKS_PER_NODE:-1})) --hostfile "$work/hosts" --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 \
  --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" --mca btl self,vader,tcp --mca pml ob1 --bind-to none -x OMP_NUM_THREADS "$@"
