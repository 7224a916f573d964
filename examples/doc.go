// Package examples holds complete set-ups; its test renders each, has the
// daemons check what comes out, and compares it with the golden files.
package examples
