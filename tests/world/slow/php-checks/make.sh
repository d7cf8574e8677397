# make.sh FOLDER COUNT: so many classes, deep below the folder
deep=$1/releases/current/vendor/framework/src/component/storage/driver
mkdir -p "$deep"
for number in $(seq "$2"); do
    echo "<?php class Part$number { public \$at = $number; function twice() { return 2 * \$this->at; } }" > "$deep/Part$number.php"
done
