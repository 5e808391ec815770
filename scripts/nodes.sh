# nodes.sh   sourced: "nodes" of this machine, which are network namespaces with a host name and a /dev/shm of their own, joined by a bridge.
# Needs root and iproute2.
#   make_nodes COUNT RATE     node1, node2, ...; RATE a second each way as tc says it (1gbit, 100mbit), - for no limit
#   on_node N COMMAND...      runs COMMAND there
#   link_node N up|down       its cable
#   mpirun_on_nodes COUNT RANKS-A-NODE [OPTIONS OF MPIRUN] PROGRAM [ARGS...]
#   remove_nodes              and every process that is left on them
# $nodes_net.N is the address of node N, $nodes_net.254 this machine's on their bridge.
nodes_tag=gpuhpc$$ nodes_net=10.77.$(($$ % 250))
nodes_link=gh$(($$ % 10000))  # interface names have 15 letters at most
nodes_work=$(mktemp -d) nodes_count=0

make_nodes() {
  local n rate=$2
  nodes_count=$1
  ip link add "$nodes_link" type bridge
  ip addr add "$nodes_net.254/24" dev "$nodes_link"
  ip link set "$nodes_link" up
  for n in $(seq "$nodes_count"); do
    ip netns add "$nodes_tag-$n"
    ip link add "$nodes_link-$n" type veth peer name eth0 netns "$nodes_tag-$n"
    ip link set "$nodes_link-$n" master "$nodes_link" up
    ip -n "$nodes_tag-$n" addr add "$nodes_net.$n/24" dev eth0
    ip -n "$nodes_tag-$n" link set eth0 up
    ip -n "$nodes_tag-$n" link set lo up
    if [ "$rate" != - ]; then  # both ways
      ip netns exec "$nodes_tag-$n" tc qdisc add dev eth0 root tbf rate "$rate" burst 512k latency 100ms
      tc qdisc add dev "$nodes_link-$n" root tbf rate "$rate" burst 512k latency 100ms
    fi
  done
  # mpirun starts its daemons through this instead of ssh.
  cat >"$nodes_work/agent" <<AGENT
#!/usr/bin/env bash
$(declare -f on_node)
nodes_tag=$nodes_tag
node=\${1##*.}; shift
on_node "\$node" bash -c "\$*"
AGENT
  chmod +x "$nodes_work/agent"
}

on_node() {
  local n=$1; shift
  # shellcheck disable=SC2016
  ip netns exec "$nodes_tag-$n" unshare -u -m --propagation private bash -c \
    'hostname "node$0"; mount -t tmpfs tmpfs /dev/shm; exec "$@"' "$n" "$@"
}

link_node() {
  local from
  ip link set "$nodes_link-$1" "$2"
  [ "$2" = up ] || return 0
  # Seconds may pass until the neighbours are found again; a program that is started before finds no network. A refusal is an answer.
  for from in 254 $(seq "$nodes_count"); do
    until on_node "$1" timeout 1 bash -c "exec 3<>/dev/tcp/$nodes_net.$from/9" 2>&1 | grep -q refused; do sleep .1; done
  done
}

mpirun_on_nodes() {
  local n count=$1 each=$2; shift 2
  for n in $(seq "$count"); do echo "$nodes_net.$n slots=$each"; done >"$nodes_work/hosts"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  mpirun -np $((count * each)) --hostfile "$nodes_work/hosts" --mca plm_rsh_agent "$nodes_work/agent" --mca plm_rsh_no_tree_spawn 1 \
    --mca oob_tcp_if_include "$nodes_net.0/24" --mca btl_tcp_if_include "$nodes_net.0/24" --mca btl self,vader,tcp --mca pml ob1 \
    --bind-to none -x OMP_NUM_THREADS "$@"
}

remove_nodes() {
  local n
  for n in $(seq "$nodes_count"); do
    ip netns pids "$nodes_tag-$n" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip link del "$nodes_link-$n" 2>/dev/null
    ip netns del "$nodes_tag-$n" 2>/dev/null
  done
  ip link del "$nodes_link" 2>/dev/null
  rm -rf "$nodes_work"
}
