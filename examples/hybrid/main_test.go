package main

func Example() {
	main()
	// Output:
	// step 0  one device 1.4097  two meshes 1.4097
	// step 1  one device 1.3052  two meshes 1.3052
	// step 2  one device 1.4160  two meshes 1.4160
	// step 3  one device 1.6121  two meshes 1.6121
	// step 4  one device 1.7284  two meshes 1.7284
	// step 5  one device 1.4582  two meshes 1.4582
}
