// Package array holds dense host arrays: a dtype, a shape and bytes in row-major order.
//
// An Array is a value that shares its bytes when copied; whoever creates one fills it before anyone else
// sees it, and after that nobody writes to it. There are no strides: every Array is contiguous, so a kernel
// is a loop over one slice.
//
//	a := array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
//	fmt.Println(a)                  // f32[2,3]{1 2 3 4 5 6}
//	xs := array.Data[float32](a)    // the elements, shared
package array
