#!/usr/bin/env bash
# overlap.sh [arguments of overlap_bench]   What of the gradients' communication hides behind the backward pass, 2 and 4 ranks: over the
# shared memory of this machine, then (as root) between two "nodes", network namespaces with 1 Gbit/s each way between them.
# Needs build/release/overlap_bench (cmake --preset release -DGPUHPC_BENCH=ON), iproute2. Takes the namespaces away again.
set -eu
cd "$(dirname "$0")/.."
bench=$PWD/${BENCH:-build/release/overlap_bench}
rate=${RATE:-1gbit}
for ranks in 2 4; do
  echo "== $ranks ranks, shared memory"
  scripts/mpirun.sh "$ranks" "$bench" "$@"
done
if [ "$(id -u)" != 0 ]; then
  echo "overlap.sh: only root can make network namespaces; the part with $rate is left out" >&2
  exit 0
fi

id=ov$$
scratch=$(mktemp -d)
cleanup() {
  for node in 1 2; do ip netns del "$id-$node" 2>/dev/null || true; done
  ip link del "$id" 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
subnet=10.211.$(($$ % 250))
ip link add "$id" type bridge
ip addr add "$subnet.254/24" dev "$id"
ip link set "$id" up
for node in 1 2; do
  ip netns add "$id-$node"
  ip link add "$id.$node" type veth peer name eth0 netns "$id-$node"
  ip link set "$id.$node" master "$id" up
  ip -n "$id-$node" addr add "$subnet.$node/24" dev eth0
  ip -n "$id-$node" link set lo up
  ip -n "$id-$node" link set eth0 up
  tc -n "$id-$node" qdisc add dev eth0 root tbf rate "$rate" burst 512k latency 100ms
done
# mpirun's launch agent: NODE-ADDRESS COMMAND.. runs the command inside that node, with a host name and /dev/shm of its own.
cat >"$scratch/agent" <<AGENT
#!/usr/bin/env bash
node=\${1##*.}; shift
exec ip netns exec "$id-\$node" unshare -u -m --propagation private bash -c '
  hostname "node'"\$node"'"; mount -t tmpfs tmpfs /dev/shm; exec bash -c "\$*"' agent "\$@"
AGENT
chmod +x "$scratch/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in 2 4; do
  echo "== $ranks ranks on two nodes, $rate between them"
  printf '%s slots=%d\n' "$subnet.1" $((ranks / 2)) "$subnet.2" $((ranks / 2)) >"$scratch/hosts"
  mpirun --hostfile "$scratch/hosts" -np "$ranks" --map-by node --bind-to none -x OMP_NUM_THREADS=1 -x LD_LIBRARY_PATH \
    --mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include "$subnet.0/24" --mca btl_tcp_if_include "$subnet.0/24" \
    --mca btl tcp,self,vader --mca pml ob1 "$bench" "$@"
done
