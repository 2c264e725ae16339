// Package cluster describes hardware: devices, the links between them, and the time of collectives.
//
// A cluster is a graph that can be written in one line, and every cost is computed from its edges. Devices
// are connected to a host's fabric, hosts by their NICs to switches, switches to wider switches that may be
// oversubscribed; additional links may connect any two devices or hosts. Devices are numbered through the
// hosts in order, and that number is their rank unless a plan maps ranks otherwise.
//
//	c, err := cluster.Parse("64x8 H100-SXM ib=400G")
//	t := c.Collective(cluster.AllReduce, 1<<30, cluster.Axis{Size: 8, Stride: 1})
//	t.Seconds, t.Algorithm // 4.5 ms, nvls
//
// A mixed cluster has several groups of hosts: "2x4 V100-SXM2-16GB eth=10G + 1x4 T4 eth=50G". YAML can
// describe what a line cannot; both print and parse again to the same value.
//
// An Axis is one parallel dimension over the devices: groups of Size, Stride apart, all of which communicate
// at once, so that NICs are shared: with tensor parallelism inside a host, eight data-parallel groups leave
// through eight NICs together.
package cluster
