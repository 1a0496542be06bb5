#!/bin/sh
# cgroup2_guest.sh - the first process of the machine that cgroup2.sh starts: version 2 alone, and the tests
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH HOME=/root
top=$1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=0666 devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
echo "cgroup2: $(uname -r), $(cat /sys/fs/cgroup/cgroup.controllers), $(grep -c cgroup /proc/self/mountinfo) mounted"
cd "$top" || poweroff -f
tr '\n' '\0' <build/cgroup2/words | xargs -0 /usr/bin/python3 -m pytest -v --color=no --durations=3 -p no:cacheprovider
echo "cgroup2: ended with $?"
/bin/busybox poweroff -f
