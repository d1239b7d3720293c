# Makes the machine inside the machine, then becomes the command it is given. Runs in network and mount namespaces that
# are new: what is done here lasts as long as a process is in them.
#
# Takes the environment variables CGROUP, DIRECTORY, NODE_ADDRESS and SERVICE_RANGE.
export PATH="$PATH:/usr/sbin:/sbin"
echo 0 > "$CGROUP/cgroup.procs"

# containerd, runc, CNI and the kubelet write to places that cannot be configured: let those lie in our directory.
mkdir -p "$DIRECTORY/var-lib" "$DIRECTORY/var-log"
mount --bind "$DIRECTORY/var-lib" /var/lib
mount --bind "$DIRECTORY/var-log" /var/log
mount -t tmpfs -o mode=755 tmpfs /run

# The kubelet sets these for the whole machine. It gets files of its own instead, which already say what it wants.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    name=${setting%=*}
    file=/run/settings/$name
    mkdir -p "${file%/*}"
    echo "${setting#*=}" > "$file"
    mount --bind "$file" "/proc/sys/$name"
done

ip link set lo up
ip link add cni0 type bridge
ip address add "$NODE_ADDRESS/24" dev cni0
ip link set cni0 up
# Services have addresses but no interface, and kube-proxy's rules only see packets that have somewhere to go. There is
# no other route: what is not in the cluster is unreachable at once.
ip route add "$SERVICE_RANGE" dev cni0
echo 1 > /proc/sys/net/ipv4/ip_forward

exec "$@"
