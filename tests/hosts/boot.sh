#!/bin/bash
# Boots the tree $1 in namespaces that are made already, over the folder $2: what changes stays in $2/changed. Its
# processes are in a control group of their own, $3, which its systemd takes for the root of all.
# Waits for a line first: whoever started it has to give it its network.
set -euo pipefail
tree=$1 folder=$2 root=$2/root group=$3
mount --make-rprivate /
mkdir "$root" "$folder/changed" "$folder/work"
# volatile: nothing of it has to outlive the machine
mount -t overlay -o "lowerdir=$tree,upperdir=$folder/changed,workdir=$folder/work,volatile" overlay "$root"
cp -a "$folder/own/." "$root/"
mount -t proc proc "$root/proc"
# a kernel for all: of its switches the host may turn one
mount -o bind "$root/proc/sys" "$root/proc/sys"
mount -o bind "$root/proc/sys/vm/nr_hugepages" "$root/proc/sys/vm/nr_hugepages"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/$group"
echo 0 > "$root/sys/fs/cgroup/$group/cgroup.procs"
umount "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for each in null zero full random urandom tty; do
  touch "$root/dev/$each"
  mount -o bind "/dev/$each" "$root/dev/$each"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
touch "$folder/console" "$root/dev/console"
mount -o bind "$folder/console" "$root/dev/console"
# NAME MAJOR MINOR a line
while read -r name major minor; do mknod -m 660 "$root/dev/$name" b "$major" "$minor"; done < "$folder/devices"
read -r
cd "$root"
mkdir -p .before
pivot_root . .before
umount -l /.before
init="env -i container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /sbin/init"
exec unshare --cgroup bash -c "mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec $init" < /dev/null
