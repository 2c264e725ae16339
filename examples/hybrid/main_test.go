package main

func Example() {
	main()
	// Output:
	// step 0  one device 1.4097  two meshes, eager 1.4097  static 1.4097
	// step 1  one device 1.3052  two meshes, eager 1.3052  static 1.3052
	// step 2  one device 1.4160  two meshes, eager 1.4160  static 1.4160
	// step 3  one device 1.6121  two meshes, eager 1.6121  static 1.6121
	// step 4  one device 1.7284  two meshes, eager 1.7284  static 1.7284
	// step 5  one device 1.4582  two meshes, eager 1.4582  static 1.4582
}
