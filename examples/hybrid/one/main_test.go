package main

func Example() {
	main()
	// Output:
	// step 0  loss 0.287478
	// step 1  loss 0.269219
	// step 2  loss 0.266274
	// step 3  loss 0.261947
	// step 4  loss 0.245460
	// step 5  loss 0.251377
}
