// Package dynamic runs programs on tensors whose sizes vary.
//
// A program has the sizes that it was compiled for. Here dims that vary are named, and each has a few sizes,
// its buckets: tensors are padded to the next ones, masks say what is padding, and there is one program for
// each combination of buckets that comes, never more than were allowed. Who wants to know is notified of each
// program why there is one.
//
//	shapes, err := dynamic.New(dynamic.Config{
//		Axes: []dynamic.Axis{{Name: "time", Buckets: []int{32, 64, 128}}},
//		In:   []string{"_,time,_"}, Out: []string{"_"}, Masks: []string{"time"},
//	})
//	f := dynamic.Compile(device, "mean", shapes, func(in []*op.Tensor) []*op.Tensor { … })
//	y, err := f.Run(x) // x is f32[8,50,4]: runs the program of f32[8,64,4] and a mask f32[64]
//
// Trainers, ToStatic and Engine compile one program for each types of batches: Shapes.Loader is a loader
// whose batches are padded so, and with masks.
package dynamic
