// Package offload keeps tensors out of a device's memory: the state of an optimizer, which is needed once a
// step and one tensor at a time.
//
// The one idea: a Store is an array of tensors whose types are known beforehand. So all its room is taken
// when it is made, and a disk that is too small says so before the first step and not in the middle of one.
// Tensors are zeros until they are put, which is what an optimizer starts from.
//
//	s, err := offload.NewDisk(offload.DiskConfig{Dir: "scratch", Types: types})
//	defer s.Close()
//	for i := range types {
//		err = s.Get(i, buffer) // tensor i+1 is on its way meanwhile
//		update(buffer)
//		err = s.Put(i, buffer)
//	}
package offload
