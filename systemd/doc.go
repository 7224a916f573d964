// Package systemd holds the units; its test has systemd itself judge them.
package systemd
