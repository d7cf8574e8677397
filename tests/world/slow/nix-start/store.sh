# store.sh FOLDER LIBRARIES OTHERS: a program that needs so many libraries, each in a folder of its own, behind so many folders without any.
# `searched` finds them by its RPATH, `absolute` by their paths.
store=$1 paths= names= files=
mkdir -p "$store" && cd "$store" || exit 1
for number in $(seq "$3"); do
    mkdir -p "other$number/lib"
    paths=$paths:$store/other$number/lib
done
for number in $(seq "$2"); do
    mkdir -p "part$number/lib" "whole$number/lib"
    echo "int part$number(void) { return $number; }" > part.c
    gcc -shared -fPIC -Wl,-soname,libpart$number.so -o part$number/lib/libpart$number.so part.c || exit 1
    gcc -shared -fPIC -Wl,-soname,$store/whole$number/lib/libpart$number.so -o whole$number/lib/libpart$number.so part.c || exit 1
    paths=$paths:$store/part$number/lib
    names="$names -L$store/part$number/lib -lpart$number"
    files="$files $store/whole$number/lib/libpart$number.so"
done
echo "int main(void) { return 0; }" > main.c
gcc -Wl,--no-as-needed,--disable-new-dtags,-rpath,"${paths#:}" -o searched main.c $names &&
    gcc -Wl,--no-as-needed -o absolute main.c $files
