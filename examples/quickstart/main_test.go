package main

func Example() {
	main()
	// Output:
	// step   0  loss 0.187
	// step  50  loss 0.012
	// step 100  loss 0.005
	// step 150  loss 0.002
	// step 200  loss 0.001
}
