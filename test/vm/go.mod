// Of the standard library alone: the guest has nothing else, and the host side only starts it.
module github.com/lb-render/lb-render/test/vm

go 1.26.0
