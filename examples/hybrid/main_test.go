package main

func Example() {
	main()
	// Output:
	// step 0  one device 1.4096  two meshes 1.4096
	// step 1  one device 1.3052  two meshes 1.3052
	// step 2  one device 1.4159  two meshes 1.4159
	// step 3  one device 1.6120  two meshes 1.6120
	// step 4  one device 1.7283  two meshes 1.7283
	// step 5  one device 1.4581  two meshes 1.4581
}
