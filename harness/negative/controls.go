package main

// controls are the mechanisms that are broken, one at a time.
var controls = []control{}
