package kernel

// Features names the instruction sets that the kernels use on this processor, best first; plain is portable
// Go.
func Features() []string {
	var names []string
	for _, set := range gemmSets {
		names = append(names, set.name)
	}
	return names
}
