// Package dynamic runs compiled programs on tensors whose sizes vary.
//
// A compiled program has fixed sizes. Here you name the dims that vary and give each a few sizes, its
// buckets. Tensors are padded to the next bucket, masks mark the padding, and each combination of buckets in
// use gets one program, up to a limit. Config.Log receives the reason for each program.
//
//	shapes, err := dynamic.New(dynamic.Config{
//		Axes: []dynamic.Axis{{Name: "time", Buckets: []int{32, 64, 128}}},
//		In:   []string{"_,time,_"}, Out: []string{"_"}, Masks: []string{"time"},
//	})
//	f := dynamic.Compile(device, "mean", shapes, func(in []*op.Tensor) []*op.Tensor { … })
//	y, err := f.Run(x) // x is f32[8,50,4]: runs the program of f32[8,64,4] and a mask f32[64]
//
// Trainers, ToStatic and Engine compile one program per batch shape; Shapes.Loader pads the batches of a
// loader and adds masks.
package dynamic
