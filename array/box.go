package array

// CopyBox copies a box of elements from one array to another of the same dtype and rank: size is the box's
// shape, to and from are where it begins in each.
func CopyBox(dst Array, to []int, src Array, from, size []int) {
	last := len(size) - 1
	if last < 0 {
		copy(dst.data, src.data)
		return
	}
	elem := dst.dtype.Size()
	ds, ss := dst.shape.Strides(), src.shape.Strides()
	var walk func(d, i, j int)
	walk = func(d, i, j int) {
		if d == last {
			i, j = i+to[d], j+from[d]
			copy(dst.data[i*elem:(i+size[d])*elem], src.data[j*elem:(j+size[d])*elem])
			return
		}
		for k := range size[d] {
			walk(d+1, i+(to[d]+k)*ds[d], j+(from[d]+k)*ss[d])
		}
	}
	walk(0, 0, 0)
}
