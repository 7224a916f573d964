#!/bin/sh
# The demo: a cluster made of manifests, the real agent, one change.
# Needs a built bin/lb-render and nothing else. Everything goes below ./out.
# CLUSTER=real puts the same manifests into a real control plane (bin/controlplane),
# from which the agent reads them, with the rights of examples/kubernetes and no more.
set -eu
cd "$(dirname "$0")/.."
bin=$PWD/bin/lb-render
config=examples/haproxy/demo.yaml

say() { printf '\n\033[1m%s\033[m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
run() { printf '$ %s\n' "$*"; "$@"; }
# waits for a condition, for a minute at most
until_true() {
    n=0
    until "$@"; do
        n=$((n + 1))
        if [ "$n" -gt 600 ] || { [ -n "${cluster:-}" ] && ! kill -0 "$cluster" 2>/dev/null; }; then
            echo "demo: waited in vain for: $*" >&2
            tail -n 20 out/agent.log out/cluster.log out/cluster/*.log >&2 2>/dev/null || true
            exit 1
        fi
        sleep 0.1
    done
}
reloads() { if [ -f out/reload.log ]; then wc -l < out/reload.log | tr -d ' '; else echo 0; fi; }
has_reloaded() { [ "$(reloads)" -ge "$1" ]; }

rm -rf out
mkdir -p out/state out/run
cp -R examples/haproxy/manifests out/manifests

agent='' cluster='' cluster_flags=''
ended() { for p in $agent $cluster; do kill "$p" 2>/dev/null && wait "$p" || true; done; }
trap ended EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ "${CLUSTER:-}" = real ]; then
    say "0. Start etcd, kube-apiserver and kube-controller-manager (logs: out/cluster), and apply the manifests."
    bin/controlplane init --port 26000 out/cluster
    bin/controlplane up out/cluster > out/cluster.log 2>&1 &
    cluster=$!
    until_true grep -q '^ready$' out/cluster.log
    run bin/controlplane apply out/cluster examples/kubernetes/rbac.yaml out/manifests
    bin/controlplane kubeconfig out/cluster platform-load-balancer/lb-render > out/kubeconfig
    cluster_flags='--kubeconfig out/kubeconfig'
    say "1. Start the agent on it, as the ServiceAccount lb-render."
else
    say "1. Start the agent on a cluster made of manifests (out/manifests)."
fi
# shellcheck disable=SC2086 # two words
"$bin" run --config "$config" $cluster_flags 2> out/agent.log &
agent=$!
until_true has_reloaded 1

say "2. It has rendered out/haproxy.cfg, had it checked, and reloaded once:"
run head -n 24 out/haproxy.cfg

say "3. A rolling update: one pod of shop/web joins, another starts to terminate."
cp out/haproxy.cfg out/haproxy.cfg.before
sed -e '/name: web-7xk2p/,/^---/{
/addresses: \[203.0.113.2\]/{
n
s/ready: true, serving: true, terminating: false/ready: false, serving: true, terminating: true/
}
s/^  - addresses: \[203.0.113.1\]/  - addresses: [203.0.113.7]\
    conditions: {ready: true, serving: true, terminating: false}\
    nodeName: node-b\
    targetRef: {kind: Pod, namespace: shop, name: web-66f8d5c9b-n0x7r}\
&/
}' examples/haproxy/manifests/web.yaml > out/web.yaml.new
mv out/web.yaml.new out/manifests/web.yaml
if [ -n "$cluster" ]; then run bin/controlplane apply out/cluster out/manifests/web.yaml; fi
until_true has_reloaded 2

say "4. What was applied: the new pod serves, the old one drains at weight 0."
echo '$ diff -u out/haproxy.cfg.before out/haproxy.cfg'
diff -u out/haproxy.cfg.before out/haproxy.cfg || true

say "5. The reload command has run once for the start, and once for the change:"
run cat out/reload.log
[ "$(reloads)" -eq 2 ] || { echo "demo: $(reloads) reloads, not 2" >&2; exit 1; }

if [ -n "${DEMO_KEEP:-}" ]; then
    trap - EXIT INT TERM HUP
    say "The agent goes on (pid $agent, log out/agent.log). Edit out/manifests and watch:"
    echo "    tail -f out/agent.log          what it does"
    echo "    $bin diff -c $config $cluster_flags"
    echo "                                   what it would do"
    if [ -n "$cluster" ]; then echo "    bin/controlplane apply out/cluster out/manifests   after an edit"; fi
    echo "    kill $agent $cluster           ends it"
    exit 0
fi
say "6. Stop the agent."
kill -TERM "$agent"
wait "$agent"
agent=''
echo "It has ended with exit code 0. Its log is out/agent.log; DEMO_KEEP=1 make demo leaves it running."
