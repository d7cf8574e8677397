<?php
// app.php SITE: an application that asks for its files before it uses them, as template engines and loaders do.
$files = glob("$argv[1]/releases/current/vendor/framework/src/component/storage/driver/*.php");
$sum = 0;
for ($request = 0; $request < 150; $request++) {
    foreach ($files as $file) {
        if (is_readable($file)) {
            $sum += strlen(basename($file));
        }
        if ($request === 0) {
            include $file;
        }
    }
}
echo $sum, "\n";
