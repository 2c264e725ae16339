// Package discover says what a machine is made of: cores, caches, NUMA nodes, memory and network cards by the
// files in which Linux describes them, GPUs and the links between them by NVIDIA's management library (NVML),
// which is loaded at run time where there is one.
//
//	m := discover.Machine(os.DirFS("/"))
//	fmt.Print(m)
package discover
